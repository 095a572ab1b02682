package httpapi

import (
	"context"
	"net/http"
)

// idsRequest is the body of a request for several records.
type idsRequest struct {
	IDs ids `json:"ids"`
}

// withBody returns an endpoint that decodes the body, calls f and responds with its
// reply.
func withBody[In any](status int, f func(ctx context.Context, c *call, in In) (reply, error)) endpoint {
	return func(c *call) error {
		var in In
		if err := c.decode(&in); err != nil {
			return err
		}
		return c.respond(status, func(ctx context.Context) (reply, error) { return f(ctx, c, in) })
	}
}

// withoutBody is withBody with status 200 for requests whose body is ignored.
func withoutBody(f func(ctx context.Context, c *call) (reply, error)) endpoint {
	return func(c *call) error {
		c.drain()
		return c.respond(http.StatusOK, func(ctx context.Context) (reply, error) { return f(ctx, c) })
	}
}
