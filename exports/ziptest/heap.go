package ziptest

import "runtime"

// HeapMeter is a sink for an archive that looks at the heap after every MiB.
type HeapMeter struct {
	Most  uint64 // bytes that the heap held at most, beside garbage
	until int
}

// Write implements [io.Writer].
func (h *HeapMeter) Write(p []byte) (int, error) {
	if h.until -= len(p); h.until <= 0 {
		h.until = 1 << 20
		h.Most = max(h.Most, LiveHeap())
	}
	return len(p), nil
}

// LiveHeap is how many bytes the heap holds beside garbage.
func LiveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
