package prefetch

import (
	"testing"

	"github.com/matryer/is"
)

// used returns how many bytes prefixes take.
func (b *Budget) used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.max - b.left
}

func TestBudget_ForgetsQueuesThatLeave(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := NewBudget(1)
	first, second := b.join(), b.join()
	is.Equal(len(b.members), 2)
	first.leave()
	second.leave()
	is.Equal(len(b.members), 0)
}

// TestPrefixSize reserves a byte for an empty file, which shows its end.
func TestPrefixSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for length, want := range map[int64]int{-1: PrefixSize, 0: 1, 1: 2, PrefixSize/2 - 1: PrefixSize / 2, PrefixSize / 2: PrefixSize} {
		is.Equal(prefixSize(length), want)
	}
}
