package keys

import (
	"context"
	"time"
)

// Uses are the uses of keys by a process. The zero value is ready to use.
type Uses struct{ *uses }

// Record counts a use of a key.
func (u *Uses) Record(key Key) {
	if u.uses == nil {
		u.uses = newUses(nil, time.Now, 0)
	}
	u.get(key).record(time.Now().UnixMilli())
}

// Flush writes the uses.
func (u *Uses) Flush(ctx context.Context, store Store) error {
	u.store = store
	return u.flush(ctx, nil)
}
