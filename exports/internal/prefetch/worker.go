package prefetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// File is an open file. Its methods are called by one goroutine at a time.
type File interface {
	io.ReadCloser

	// Length returns the size in bytes, -1 if unknown.
	Length() int64

	// CanIdle reports whether the file can still be read after a long time
	// without a Read.
	CanIdle() bool
}

// Job opens one file.
type Job[F File] struct {
	Host string

	// Concurrency returns how many files of the host may be open at a time, at
	// least 1. It may change. The host has that of its first job.
	Concurrency func() int

	// Open returns the file, or an error after all retries. When ctx ends,
	// reads of the file must fail promptly.
	Open func(ctx context.Context) (F, error)
}

// prefixSize returns how many bytes of a file of the given length are prefetched if
// there is memory. One more than a small file has shows its end.
func prefixSize(length int64) int {
	if 0 <= length && length < PrefixSize/2 {
		return int(length + 1)
	}
	return PrefixSize
}

// Result is a file whose start has been read.
type Result[F File] struct {
	File     F
	Prefix   []byte // the first bytes
	Complete bool   // Prefix is the complete file, and File is closed
	CRC      uint32 // CRC-32 (IEEE) of a complete file

	more    []byte    // the bytes after Prefix that readMore has read
	readAt  time.Time // end of the last Read of Prefix
	open    bool      // File must be closed
	release func()    // releases the memory of Prefix; nil if it has none
}

// Content returns the complete file, or the prefix followed by the rest.
func (r *Result[F]) Content() io.Reader {
	if r.Complete {
		return bytes.NewReader(r.Prefix)
	}
	return io.MultiReader(bytes.NewReader(r.Prefix), bytes.NewReader(r.more), r.File)
}

// Prefetched returns what has been read of an incomplete file. File has the rest.
func (r *Result[F]) Prefetched() io.Reader {
	return io.MultiReader(bytes.NewReader(r.Prefix), bytes.NewReader(r.more))
}

// close closes the file and releases its memory, once.
func (r *Result[F]) close() {
	if r.release != nil {
		defer r.release()
		r.release = nil
	}
	r.closeFile()
}

func (r *Result[F]) closeFile() {
	if r.open {
		r.open = false
		r.File.Close()
	}
}

func (r *Result[F]) readMore() error {
	more := make([]byte, 64<<10-1) // with the prefix, 64 KiB beyond PrefixSize
	n, err := ReadUntil(r.File, more, -1, time.Now().Add(time.Second))
	r.more = more[:n]
	if err == io.EOF {
		return nil // reading Content returns it too
	}
	return err
}

// ReadUntil reads until p is full, r fails, or the time until has passed and p
// has at least one byte. It does not interrupt a Read that blocks. Unlike
// [io.ReadFull] it returns io.EOF at the end of r. It fails if r, unless its size is
// negative, has more bytes than that, or fewer.
func ReadUntil(r io.Reader, p []byte, size int64, until time.Time) (n int, err error) {
	for empty := 0; n < len(p) && err == nil && (n == 0 || time.Now().Before(until)); empty++ {
		var m int
		m, err = r.Read(p[n:])
		if n += m; m > 0 {
			empty = 0
		} else if err == nil && empty == 100 { // as in package bufio
			err = io.ErrNoProgress
		}
	}
	if size >= 0 && (int64(n) > size || err == io.EOF && int64(n) < size) {
		err = fmt.Errorf("the content does not have the Size of %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	return n, err
}
