// Package chunk provides memory in pieces of equal size for a cache, which it never
// returns to the system. On Linux it is outside the heap, because the garbage collector
// lets a process grow to twice the size of what is in use.
package chunk

import (
	"sync"

	"example.com/canvasback/httpapi/internal/stream"
)

// Size is the size of a chunk in bytes: what a [stream.Writer] writes at once.
const Size = stream.ChunkSize

// batch is how many chunks are allocated at once.
const batch = 16

var (
	mu   sync.Mutex
	free [][]byte
)

// Get returns a chunk with any content, for the caller until Put.
func Get() []byte {
	mu.Lock()
	defer mu.Unlock()
	if len(free) == 0 {
		memory := allocate(batch * Size)
		for i := range batch {
			free = append(free, memory[i*Size:(i+1)*Size:(i+1)*Size])
		}
	}
	last := len(free) - 1
	out := free[last]
	free = free[:last]
	return out
}

// Put makes a chunk of Get available. The caller must no longer use it.
func Put(c []byte) {
	mu.Lock()
	defer mu.Unlock()
	free = append(free, c[:Size])
}
