package exports

import (
	"fmt"
	"time"
)

// LinkLimitError means that a link serves too many requests at a time, or has
// served too much.
type LinkLimitError struct {
	Reason     string // may be shown to clients
	RetryAfter time.Duration
}

func (e *LinkLimitError) Error() string { return "exports: " + e.Reason }

// linkUsage is how this process uses a link. It is guarded by facts.mu.
type linkUsage struct {
	active   int
	reserved int64 // of the running responses
	unsaved  int64 // served, not yet in the store
}

// usageUnit is the usage of one complete download. A link that is renewed keeps its
// usage although its size changes.
const usageUnit = 1_000_000

// usage returns what a response of n bytes adds to the usage of the link, rounded
// up.
func (l *Link) usage(n int64) int64 {
	if l.Size <= 0 || n >= l.Size {
		return usageUnit
	}
	return max(1, int64(float64(n)/float64(l.Size)*usageUnit)+1)
}

// Reserve begins a response with n bytes of the link, -1 for all of them. It
// returns a [LinkLimitError] if the link may not serve them now. Otherwise the
// caller must call done once, with the number of bytes that were sent.
func (l *Link) Reserve(n int64) (done func(sent int64), err error) {
	s := l.service
	if n < 0 {
		n = max(l.Size, 0)
	}
	reserved := l.usage(n)
	k := s.facts
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.usage[l.stored.Digest]
	if u == nil {
		u = new(linkUsage)
	}
	switch limit, used := s.linkServed*usageUnit, l.stored.Served+u.unsaved; {
	case u.active >= s.linkRequests:
		return nil, &LinkLimitError{fmt.Sprintf("this link serves at most %d requests at a time", s.linkRequests), time.Second}
	case used+u.reserved >= limit:
		retry := l.ExpiresAt.Sub(s.now())
		if used < limit {
			retry = time.Second // the running responses may end early
		}
		return nil, &LinkLimitError{fmt.Sprintf("this link has delivered %d times its size", s.linkServed), retry}
	}
	k.usage[l.stored.Digest] = u
	u.active++
	u.reserved += reserved
	return func(sent int64) {
		k.mu.Lock()
		defer k.mu.Unlock()
		u.active--
		u.reserved -= reserved
		if sent > 0 {
			u.unsaved += min(reserved, l.usage(sent))
			k.startWriting()
		}
		k.release(l.stored.Digest, u)
	}, nil
}

// release removes usage that has nothing left. The caller holds the lock.
func (k *facts) release(link Digest, u *linkUsage) {
	if u.active == 0 && u.unsaved == 0 {
		delete(k.usage, link)
	}
}
