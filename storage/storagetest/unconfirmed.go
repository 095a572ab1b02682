package storagetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// RunUnconfirmed checks that calls that write return an error while the storage cannot
// confirm writes, for example because a database has lost its synchronous standby. It
// fills the storage, calls begin, and makes each call with the timeout. The writes may
// take effect. Then it repeats the calls: what they find changed is not confirmed either.
func RunUnconfirmed(t *testing.T, s Storage, begin func(), timeout time.Duration) {
	const pruneNothing = "symbols.PruneTrash"
	calls := append(prepareCalls(t, s), call{pruneNothing + " of all", func(ctx context.Context) error {
		_, err := s.Symbols().PruneTrash(ctx, time.Now().Add(time.Hour), 0)
		return err
	}})
	for range 2 { // besides what RestoreTrash and DeleteTrash may remove
		fillTrash(t, s)
	}
	begin()
	for _, c := range slices.Concat(calls, calls[:len(calls)-1]) {
		if c.isRead() || c.method == pruneNothing {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := c.do(ctx)
		cancel()
		if err == nil {
			t.Errorf("%s succeeds", c.method)
		}
		wantNoSentinel(t, c.method, err)
	}
}

// isRead reports whether a call writes nothing, by its name.
func (c call) isRead() bool {
	_, name, _ := strings.Cut(c.method, ".")
	for _, prefix := range []string{"Get", "List", "Find", "Changes", "Usage"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "Version")
}
