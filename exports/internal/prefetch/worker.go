package prefetch

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"time"
)

// File is an open file. Its methods are called by one goroutine at a time.
type File interface {
	io.ReadCloser

	// Length returns the size in bytes, -1 if unknown.
	Length() int64

	// Idles reports whether the rest of the file can still be read after it
	// has not been read for a long time.
	Idles() bool
}

// Job opens one file.
type Job[F File] struct {
	Host string // connections are counted by it

	// Open returns the file, or an error after all retries. The file must
	// fail soon when ctx ends.
	Open func(ctx context.Context) (F, error)
}

// Result is a file whose start has been read.
type Result[F File] struct {
	File     F
	Prefix   []byte // the first bytes
	Complete bool   // Prefix is the complete file, and File is closed
	CRC      uint32 // CRC-32 (IEEE) of a complete file

	more    []byte    // what follows Prefix, read when the file's turn came
	readAt  time.Time // when Prefix had been read
	open    bool      // File is to be closed
	release func()    // returns the memory of Prefix; nil if it has none
}

// Content returns the complete file, or the prefix followed by the rest.
func (r *Result[F]) Content() io.Reader {
	if r.Complete {
		return bytes.NewReader(r.Prefix)
	}
	return io.MultiReader(bytes.NewReader(r.Prefix), bytes.NewReader(r.more), r.File)
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

// limits apply to opening one file.
type limits struct {
	timeout time.Duration
	queue   *breaker // of all files of the queue
	host    *breaker // of those from the same host
}

// read opens a file and reads its prefix. It runs on goroutines that no caller
// can protect, so it converts a panic of the file's implementation to an error.
// In case of an error it calls release itself.
func read[F File](ctx context.Context, job Job[F], l limits, release func()) (result Result[F], err error) {
	result.release = release
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("prefetch: panic: %v\n%s", reason, debug.Stack())
		}
		if err != nil {
			defer func() { recover() }() // Close may panic too
			result.close()
		}
	}()
	if l.queue.open() || l.host.open() {
		return result, ErrUnresponsive
	}
	start := time.Now()
	file, err := job.Open(ctx)
	slow := min(time.Second, l.timeout)
	l.queue.record(err, time.Since(start), slow)
	l.host.record(err, time.Since(start), slow)
	if err != nil {
		return result, err
	}
	result.File, result.open = file, true
	buffer, free := prefixBuffer(file.Length())
	result.release = func() { free(); release() }
	n, err := ReadUntil(file, buffer, start.Add(l.timeout))
	switch {
	case err == io.EOF && file.Length() >= 0 && int64(n) != file.Length():
		return result, io.ErrUnexpectedEOF
	case err == io.EOF:
		result.Complete = true
		result.CRC = crc32.ChecksumIEEE(buffer[:n]) // here it runs in parallel
		result.closeFile()
	case err != nil:
		return result, err
	}
	result.Prefix, result.readAt = buffer[:n], time.Now()
	return result, nil
}

// readMore reads beyond the prefix.
func (r *Result[F]) readMore() error {
	more := make([]byte, 64<<10-1) // with the prefix, 64 KiB beyond PrefixSize
	n, err := ReadUntil(r.File, more, time.Now().Add(time.Second))
	r.more = more[:n]
	if err == io.EOF {
		return nil // the file returns it again
	}
	return err
}

// ReadUntil fills p until a time, with one byte at least, and waits no longer
// than one Read takes. The error is io.EOF only at the end of r.
func ReadUntil(r io.Reader, p []byte, until time.Time) (n int, err error) {
	for n < len(p) && err == nil && (n == 0 || time.Now().Before(until)) {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}
