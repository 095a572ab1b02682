package httpapi

import (
	"time"

	"example.com/canvasback/httpapi/internal/budget"
)

// download returns an endpoint that counts as a download of its client while it runs.
func download(next endpoint) endpoint {
	return func(c *call) error {
		streams, client := c.api.streams, streamClient{c.client(), c.tokenID}
		if err := streams.start(client); err != nil {
			return err
		}
		defer streams.end(client)
		return next(c)
	}
}

// expensive returns an endpoint that runs in the turn of its client.
func expensive(next endpoint) endpoint {
	return func(c *call) error { return c.inTurn(func() error { return next(c) })() }
}

// inTurn returns a function that calls f when no other expensive request of the client
// runs. It waits as long as for memory.
func (c *call) inTurn(f func() error) func() error {
	return func() error {
		turn := c.api.turns.join(c.client())
		defer c.api.turns.leave(c.client())
		select {
		case turn.taken <- struct{}{}:
			defer func() { <-turn.taken }()
			return f()
		case <-time.After(c.api.options.Limits.IdleTimeout):
			return budget.ErrExhausted
		}
	}
}

// slowDown delays the response to a client that sends more requests instead of waiting, or
// closes its connection if too many responses are delayed.
func (c *call) slowDown(retryAfter time.Duration) {
	const patience, maxDelay = 3, 5 * time.Second
	if c.api.refusals.add(c.client()) <= patience {
		return
	}
	select {
	case c.api.refusals.parked <- struct{}{}:
		defer func() { <-c.api.refusals.parked }()
	default:
		c.w.Header().Set("Connection", "close")
		return
	}
	select {
	case <-time.After(min(retryAfter, maxDelay)):
	case <-c.r.Context().Done():
	}
}
