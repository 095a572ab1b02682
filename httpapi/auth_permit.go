package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/keys"
)

// setKey sets the client key of the request, which may be rejected, for logs.
func (c *call) setKey(key *keys.Key) {
	c.keyID = key.ID
	if key.Token != nil {
		c.tokenID = key.Token.ID
	}
}

// permit checks the scopes of a valid key and calls Authorize.
func (c *call) permit(key *keys.Key, scopes []string) error {
	c.setKey(key)
	for _, scope := range scopes {
		if !key.Allows(scope) {
			return &permitError{DeniedError{Message: "this API key lacks the scope " + scope}, nil}
		}
	}
	if c.api.options.Authorize == nil {
		return nil
	}
	err := c.api.options.Authorize(c.r, *key, c.route)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok { // it has read the body
		return errTooLarge
	}
	if errors.Is(err, budget.ErrExhausted) {
		return err
	}
	if _, ok := errors.AsType[*DeniedError](err); !ok && !isUnavailable(err) && !c.disconnected() {
		c.logFailure(slog.LevelWarn, "Authorize failed", http.StatusForbidden, "error", err)
	}
	return denied(err)
}

// DeniedError is an error of [Options.Authorize] or [Options.AuthenticateAdmin] with
// a text for the client, or none. The response is 403, or 429 with Retry-After if RetryAfter
// is positive.
type DeniedError struct {
	Message    string
	RetryAfter time.Duration
}

func (e *DeniedError) Error() string { return e.Message }

// permitError is the rejection of a request, with the response of a DeniedError. It
// does not wrap the cause, which must not select another response.
type permitError struct {
	DeniedError
	cause error // for the log; may be nil
}

// denied returns a permitError for an error of the application, or
// [keys.ErrUnavailable] if that of a store is the cause.
func denied(err error) error {
	out := &permitError{DeniedError{Message: "this is not permitted"}, err}
	if known, ok := errors.AsType[*DeniedError](err); ok {
		out.Message, out.RetryAfter = cmp.Or(known.Message, out.Message), known.RetryAfter
	} else if isUnavailable(err) {
		return fmt.Errorf("%w: %v", keys.ErrUnavailable, err) //nolint:errorlint // the cause must not select the response
	}
	return out
}

func (e *permitError) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.cause.Error()
}

func (e *permitError) response() errorResponse {
	if e.RetryAfter > 0 {
		return errorResponse{e, http.StatusTooManyRequests, "too_many_requests", e.Message, e.RetryAfter}
	}
	return errorResponse{e, http.StatusForbidden, "forbidden", e.Message, 0}
}
