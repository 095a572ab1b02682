package httpapi

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

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
