//go:build !linux

package chunk

func allocate(size int) []byte { return make([]byte, size) }
