package chunk

import (
	"math"
	"runtime/debug"
	"syscall"
)

// allocate returns memory outside the heap. The runtime's memory limit, such as
// GOMEMLIMIT, would not count it, so with a limit the memory is on the heap.
func allocate(size int) []byte {
	if debug.SetMemoryLimit(-1) < math.MaxInt64 {
		return make([]byte, size)
	}
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size)
	}
	return memory
}
