package httpapi

import (
	"context"
	"net/http"

	"example.com/canvasback/symbols"
)

// target is the record that a request names.
type target struct {
	id    int64         // in the path; zero if the route has none
	match symbols.Match // in If-Match
	by    int64         // id of the client key, or zero

	tenant string
	touch  func(kind string, ids ...int64) // adds to the observation; see [call.touch]
	slowly func(func(context.Context) (reply, error)) (reply, error)
}

// idsRequest is the body of a request for several records.
type idsRequest struct {
	IDs ids `json:"ids"`
}

// withBody returns an endpoint that decodes the body, calls f and responds with its
// reply.
func withBody[In any](status int, f func(ctx context.Context, t target, in In) (reply, error)) endpoint {
	return func(c *call) error {
		t, err := c.target()
		if err != nil {
			return err
		}
		var in In
		if err := c.decode(&in); err != nil {
			return err
		}
		return c.respond(status, func(ctx context.Context) (reply, error) { return f(ctx, t, in) })
	}
}

// withoutBody is withBody with status 200 for requests whose body is ignored.
func withoutBody(f func(ctx context.Context, t target) (reply, error)) endpoint {
	return func(c *call) error {
		t, err := c.target()
		if err != nil {
			return err
		}
		c.drain()
		return c.respond(http.StatusOK, func(ctx context.Context) (reply, error) { return f(ctx, t) })
	}
}

func (c *call) target() (target, error) {
	id, err := c.id()
	return target{id, ifMatch(c.r.Header), c.keyID, c.tenant, c.touch, c.slowly}, err
}
