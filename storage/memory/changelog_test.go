package memory

import (
	"encoding/binary"
	"slices"
	"testing"

	"example.com/canvasback/keys"
)

func TestChangeLog_RetainsLastEntries(t *testing.T) {
	t.Parallel()
	l := changeLog{{epoch: 1}}
	digest := func(n int) (d keys.Digest) {
		binary.BigEndian.PutUint64(d[:], uint64(n))
		return d
	}
	epochs := []int64{l.epoch()} // by the number of digests before
	for n := range 3*maxChanges + 5 {
		l.add(digest(n))
		epochs = append(epochs, l.epoch())
		if len(l) > 2*maxChanges {
			t.Fatalf("the log has %d entries", len(l))
		}
	}
	last := len(epochs) - 1
	for known := 0; known <= last; known += 501 {
		changes := l.since(epochs[known])
		if changes.Epoch != l.epoch() || !changes.Complete && (last-known < maxChanges || len(changes.Digests) > 0) {
			t.Fatalf("since change %d of %d: epoch %d, complete: %v", known, last, changes.Epoch, changes.Complete)
		}
		if changes.Complete {
			var want []keys.Digest
			for n := known; n < last; n++ {
				want = append(want, digest(n))
			}
			if !slices.Equal(changes.Digests, want) {
				t.Fatalf("since change %d of %d: %d other digests", known, last, len(changes.Digests))
			}
		}
	}
	if l.since(epochs[0]).Complete {
		t.Error("the log reaches back to its start")
	}
}
