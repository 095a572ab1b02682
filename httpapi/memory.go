package httpapi

import (
	"context"
	"time"

	"example.com/canvasback/httpapi/internal/budget"
)

// uncounted is the size in bytes up to which the memory of a request is not counted:
// the server needs as much for each connection.
const uncounted = 4 << 10

// reserve extends the memory of the request to size bytes. It waits as long as for a
// store, and not less if the client disconnects: see storeContext.
func (c *call) reserve(size int64) error {
	return c.reserveWithin(size, c.api.options.Limits.StoreTimeout)
}

func (c *call) reserveWithin(size int64, wait time.Duration) error {
	if size <= max(uncounted, c.memory.Size()) {
		return nil
	}
	if c.memory == (budget.Reservation[client]{}) {
		c.memory = c.api.memory.Reserve(c.client())
	}
	return growWithin(c.detached(), &c.memory, size, wait)
}

func growWithin(ctx context.Context, memory *budget.Reservation[client], size int64, wait time.Duration) error {
	if memory.TryGrow(size) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return memory.Grow(ctx, size)
}

// reserveApart counts memory that may outlast the request, until release is called. It
// is a [bodies.Reserve].
func (c *call) reserveApart(size int64, wait bool) (release func(), err error) {
	memory := c.api.memory.Reserve(c.client())
	if !wait && !memory.TryGrow(size) {
		return nil, budget.ErrExhausted
	}
	return memory.Release, growWithin(c.detached(), &memory, size, c.api.options.Limits.StoreTimeout)
}
