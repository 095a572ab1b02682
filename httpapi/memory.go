package httpapi

import (
	"context"
	"time"

	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/budget"
)

// uncounted is the size in bytes up to which the memory of a request is not counted:
// the server needs as much for each connection.
const uncounted = 4 << 10

// reserve extends the memory of the request to size bytes. It waits as long as for a
// store, and not less if the client disconnects: see storeContext. Then it checks the key
// again, which may have been revoked meanwhile.
func (c *call) reserve(size int64) error {
	if err := c.reserveWithin(size, c.api.options.Limits.StoreTimeout); err != nil {
		return err
	}
	return c.checkAfterWait()
}

// reserveForTurn is reserve before [call.inTurn], which waits as long and checks the key.
// Whoever has the turn must not wait for the memory of those that wait for it.
func (c *call) reserveForTurn(size int64) error {
	return c.reserveWithin(size, c.api.options.Limits.IdleTimeout)
}

// count is reserve without waiting, for what is in memory already: nothing waits with
// memory that is not counted.
func (c *call) count(size int64) error { return c.reserveWithin(size, 0) }

func (c *call) reserveWithin(size int64, wait time.Duration) error {
	if c.memory.IsZero() && size <= uncounted {
		return nil
	}
	return c.growWithin(&c.memory, size, wait)
}

// growWithin extends memory for the client of the request, the zero value included.
func (c *call) growWithin(memory *budget.Reservation[client], size int64, wait time.Duration) error {
	if memory.IsZero() {
		*memory = c.api.memory.Reserve(c.client())
	}
	if memory.TryGrow(size) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.detached(), wait)
	defer cancel()
	return memory.Grow(ctx, size)
}

// settle reduces the memory of a request, whose response may last long, to size bytes. Its
// body is not read again.
func (c *call) settle(size int64) error {
	c.body.text = nil
	c.memory.Shrink(size)
	if c.memory.Exceeds() { // others would wait for it
		return budget.ErrExhausted
	}
	return nil
}

// bodyMemory is the memory of a body, which may outlast the request. It is a
// [bodies.Memory].
type bodyMemory struct {
	budget.Reservation[client]
	call *call
}

func (m *bodyMemory) New() bodies.Memory { return &bodyMemory{call: m.call} }

func (m *bodyMemory) TryGrow(size int64) bool {
	before := m.Size()
	if m.call.growWithin(&m.Reservation, size, 0) == nil && !m.Exceeds() {
		return true
	}
	m.Shrink(before)
	return false
}

func (m *bodyMemory) Grow(size int64) error {
	if err := m.call.growWithin(&m.Reservation, size, m.call.api.options.Limits.StoreTimeout); err != nil {
		return err
	}
	return m.call.checkAfterWait()
}
