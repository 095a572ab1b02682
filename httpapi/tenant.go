package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
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
	if _, ok := errors.AsType[*DeniedError](err); err != nil && !ok && !isUnavailable(err) {
		c.logFailure(slog.LevelWarn, "Tenant failed", http.StatusForbidden, "error", err)
	}
	if err != nil {
		return denied(err)
	}
	return nil
}

// tenantOf returns the tenant of a client key.
func (a *API) tenantOf(key *keys.Key) (string, error) {
	if a.options.Tenant == nil {
		return "", nil
	}
	tenant, err := a.options.Tenant(*key)
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
	case err != nil, current != tenant:
		return exports.ErrLinkNotFound
	}
	return nil
}
