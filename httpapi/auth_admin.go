package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"example.com/canvasback/keys"
)

// checkAdmin authenticates a request to an admin route. The limit of a client IP
// holds for right keys too: beyond it a response does not reveal whether a key is one.
func (a *API) checkAdmin(w *response, r *http.Request) error {
	if a.options.AuthenticateAdmin != nil {
		return a.checkAdminLogin(w, r)
	}
	_, values := w.credentials()
	switch {
	case a.admin.empty():
		return errAdminOff
	case len(values) != 1:
		return errAdminKeyMissing
	}
	ip := a.limiter.clientIP(r)
	number, slow := a.admin.find(values[0])
	if err := a.limiter.take(ip, number == 0); err != nil {
		return err
	}
	if slow {
		ctx, cancel := context.WithTimeout(r.Context(), a.options.StoreTimeout)
		defer cancel()
		var err error
		if number, err = a.admin.compare(ctx, values[0]); err != nil {
			return fmt.Errorf("%w: wait for the comparison of a key: %w", keys.ErrUnavailable, err)
		}
		if number > 0 {
			a.limiter.refund(ip)
		}
	}
	if number == 0 {
		return errAdminKeyWrong
	}
	w.actor = "admin " + strconv.Itoa(number)
	return nil
}

// checkAdminLogin calls AuthenticateAdmin. Because browsers may add the credentials
// by themselves, such as cookies, it rejects cross-origin requests that change
// something.
func (a *API) checkAdminLogin(w *response, r *http.Request) error {
	if err := a.crossOrigin.Check(r); err != nil {
		return errCrossOrigin
	}
	actor, err := a.options.AuthenticateAdmin(r)
	if err != nil {
		if _, ok := errors.AsType[*DeniedError](err); ok || isUnavailable(err) {
			return denied(err)
		}
		return fmt.Errorf("%w: %v", errAdminLogin, err) //nolint:errorlint // the cause must not select the response
	}
	w.actor = cmp.Or(actorText(actor), "admin")
	return nil
}

// actorText returns the actor as valid UTF-8 without control characters, of at most
// 255 characters. It may be from a header, and is stored with exports.
func actorText(actor string) string {
	count := 0
	return strings.Map(func(c rune) rune {
		if count++; count > 255 || unicode.IsControl(c) {
			return -1
		}
		return c
	}, actor)
}
