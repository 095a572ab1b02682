package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// checkAdmin authenticates a request to an admin route, and sets its actor.
func (c *call) checkAdmin() error {
	if c.api.options.AuthenticateAdmin != nil {
		return c.checkAdminLogin()
	}
	number, err := c.api.auth.Admin(c.r.Context(), c.clientIP(), c.credentials().admin)
	if err != nil {
		return err
	}
	c.actor = "admin " + strconv.Itoa(number)
	return nil
}

// checkAdminLogin calls AuthenticateAdmin. Because browsers may add the credentials
// by themselves, such as cookies, it rejects cross-origin requests that change
// something.
func (c *call) checkAdminLogin() error {
	if err := c.api.crossOrigin.Check(c.r); err != nil {
		return errCrossOrigin
	}
	actor, err := c.api.options.AuthenticateAdmin(c.r)
	if err != nil {
		if _, ok := errors.AsType[*DeniedError](err); ok || isUnavailable(err) {
			return denied(err)
		}
		return fmt.Errorf("%w: %v", errAdminLogin, err) //nolint:errorlint // the cause must not select the response
	}
	actor = actorText(actor)
	if strings.HasPrefix(actor, "key ") || actor == anyone { // names of client keys, and of requests without one
		actor = actorText("admin " + actor)
	}
	c.actor = cmp.Or(actor, "admin")
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
