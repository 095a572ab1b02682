package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/keys"
)

// setKey sets the client key of the request, which may be rejected, for logs. One that is
// deleted during the request stays.
func (c *call) setKey(key *keys.Key) {
	c.keyID = cmp.Or(key.ID, c.keyID)
	if key.Token != nil {
		c.tokenID = key.Token.ID
	}
}

// permit checks the scopes of a valid key, sets its tenant, and calls Authorize.
func (c *call) permit(key *keys.Key, scopes []string) error {
	c.setKey(key)
	for _, scope := range scopes {
		if !key.Allows(scope) {
			credential := map[bool]string{true: "page token", false: "API key"}[key.Token != nil]
			return &DeniedError{Message: "this " + credential + " lacks the scope " + scope}
		}
	}
	if c.hasTenant {
		if err := c.setTenant(key); err != nil {
			return err
		}
	}
	if c.api.options.Authorize == nil {
		return nil
	}
	err := c.api.options.Authorize(c.r, *key, c.route)
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*resourcesError](err); ok {
		return failed.error
	}
	if _, ok := errors.AsType[*DeniedError](err); !ok && !isUnavailable(err) && !c.disconnected() {
		c.logFailure(slog.LevelWarn, "Authorize failed", http.StatusForbidden, "error", err)
	}
	return denied(err)
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

// TenantOfOwner is for [Options.Tenant]: the tenant of a key is its owner. A key without
// an owner is denied.
func TenantOfOwner(key keys.Key) (string, error) {
	if key.Owner == "" {
		return "", &DeniedError{Message: "this API key has no owner"}
	}
	return key.Owner, nil
}
