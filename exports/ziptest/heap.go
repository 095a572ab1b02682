package ziptest

import "runtime"

// HeapMeter is an [io.Writer] that discards an archive and measures the heap
// after every MiB of it.
type HeapMeter struct {
	baseline, peak uint64
	remaining      int // bytes until the next measurement
}

// NewHeapMeter returns a HeapMeter. Its baseline is the current heap.
func NewHeapMeter() *HeapMeter {
	reachableBytes() // the second collection empties pools
	return &HeapMeter{baseline: reachableBytes()}
}

// Write implements [io.Writer].
func (h *HeapMeter) Write(p []byte) (int, error) {
	if h.remaining -= len(p); h.remaining <= 0 {
		h.remaining = 1 << 20
		h.peak = max(h.peak, reachableBytes())
	}
	return len(p), nil
}

// Growth returns the difference between the largest heap and the baseline, in
// bytes.
func (h *HeapMeter) Growth() int64 { return int64(h.peak) - int64(h.baseline) }

func reachableBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
