package keys

import (
	"context"
	"time"
)

// Uses are the uses of keys by a process.
type Uses struct{ uses }

// Record counts a use of a key.
func (u *Uses) Record(key Key) { u.get(key).record(time.Now().UnixMilli()) }

// Flush writes the uses.
func (u *Uses) Flush(ctx context.Context, store Store) error { return u.flush(ctx, store, time.Now) }
