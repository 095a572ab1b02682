package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
)

// TenantOfOwner is for [Options.Tenant]: the tenant of a key is its owner. A key without
// an owner is denied.
func TenantOfOwner(key keys.Key) (string, error) {
	if key.Owner == "" {
		return "", &DeniedError{Message: "this API key has no owner"}
	}
	return key.Owner, nil
}

// setTenant sets the tenant whose records the request is about.
func (c *call) setTenant(key *keys.Key) (err error) {
	c.tenant, err = c.api.tenantOf(key)
	if err == nil || errors.Is(err, errPanic) {
		return err
	}
	if _, ok := errors.AsType[*DeniedError](err); !ok && !isUnavailable(err) {
		c.logFailure(slog.LevelWarn, "Tenant failed", http.StatusForbidden, "error", err)
	}
	return denied(err)
}

// tenantOf returns the tenant of a client key. A panic is an error that wraps errPanic: in
// the goroutine that watches a response it would end the process.
func (a *API) tenantOf(key *keys.Key) (tenant string, err error) {
	if a.options.Tenant == nil {
		return "", nil
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w in Options.Tenant: %v\n%s", errPanic, reason, debug.Stack())
		}
	}()
	tenant, err = a.options.Tenant(*key)
	if err == nil && !validTenant(tenant) {
		err = errors.New("httpapi: Options.Tenant returned an invalid tenant")
	}
	return tenant, err
}

// validTenant reports whether a tenant has the form of the owner of a key, or is empty.
func validTenant(tenant string) bool {
	const most = 255
	return utf8.ValidString(tenant) && !strings.ContainsRune(tenant, 0) && utf8.RuneCountInString(tenant) <= most &&
		(tenant == "" || strings.TrimSpace(tenant) != "")
}

// checkLinkTenant returns an error unless a link is one of the tenant of its key, which
// may be another than when it was made.
func (c *call) checkLinkTenant(key *keys.Key, tenant string) error {
	current, err := c.api.tenantOf(key)
	switch {
	case isUnavailable(err):
		return denied(err)
	case errors.Is(err, errPanic):
		return err
	case err != nil, current != tenant:
		return exports.ErrLinkNotFound
	}
	return nil
}
