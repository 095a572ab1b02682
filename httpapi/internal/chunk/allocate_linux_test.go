package chunk

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/matryer/is"
)

// TestAllocate_UsesHeapWithMemoryLimit is not parallel: the limit is that of the process.
func TestAllocate_UsesHeapWithMemoryLimit(t *testing.T) {
	is := is.New(t)
	const size = 16 << 20
	heap := func(limit int64) uint64 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		memory := allocate(size)
		runtime.ReadMemStats(&after)
		memory[0], memory[size-1] = 1, 1
		return after.TotalAlloc - before.TotalAlloc
	}
	is.True(heap(math.MaxInt64) < size/2)
	is.True(heap(1<<40) >= size)
}
