package prefetch

import (
	"bytes"
	"cmp"
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

	// Limit is how many bytes of the file are prefetched at most; PrefixSize if
	// zero. While memory is scarce, it may be less.
	Limit int

	// Open returns the file, or an error after all retries. When ctx ends,
	// reads of the file must fail promptly.
	Open func(ctx context.Context) (F, error)
}

// prefixSize returns how many bytes of a file of the given length are prefetched if
// there is memory. One more than a small file has shows its end.
func (j *Job[F]) prefixSize(length int64) int {
	limit := cmp.Or(j.Limit, PrefixSize)
	if 0 <= length && length < PrefixSize/2 {
		return int(min(length+1, int64(limit)))
	}
	return limit
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

// work waits for a connection to the host and for memory, then reads.
func (q *Queue[F]) work(t *task[F]) Outcome[F] {
	select {
	case <-t.admitted:
	case <-q.ctx.Done():
		return Outcome[F]{Arrived: true, Err: q.ctx.Err()}
	}
	memory, err := q.config.Budget.acquire(q.ctx, t.wanted)
	if err != nil {
		return Outcome[F]{Arrived: true, Err: err}
	}
	result, err := q.read(t, memory)
	return Outcome[F]{true, result, err}
}

// read opens a file and reads its prefix. It converts a panic to an error,
// because a panic in a worker's goroutine would end the process. If it returns an
// error, it has released the memory.
func (q *Queue[F]) read(t *task[F], memory *allocation) (result Result[F], err error) {
	result.release = memory.release
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("prefetch: panic: %v\n%s", reason, debug.Stack())
		}
		if err != nil {
			defer func() { recover() }() // Close may panic too
			result.close()
		}
	}()
	start := time.Now()
	err = t.host.breaker.Call(q.config.Timeout, func() (err error) {
		result.File, err = t.job.Open(q.ctx)
		return err
	})
	if err != nil {
		return result, err
	}
	file := result.File
	result.open = true
	buffer, free := prefixBuffer(memory.resize(t.job.prefixSize(file.Length())))
	result.release = func() { free(); memory.release() }
	n, err := ReadUntil(file, buffer, start.Add(q.config.Timeout))
	switch {
	case err == io.EOF && file.Length() >= 0 && int64(n) != file.Length():
		return result, io.ErrUnexpectedEOF
	case err == io.EOF:
		result.Complete = true
		result.CRC = crc32.ChecksumIEEE(buffer[:n]) // here workers compute it in parallel
		result.closeFile()
	case err != nil:
		return result, err
	}
	result.Prefix, result.readAt = buffer[:n], time.Now()
	return result, nil
}

func (r *Result[F]) readMore() error {
	more := make([]byte, 64<<10-1) // with the prefix, 64 KiB beyond PrefixSize
	n, err := ReadUntil(r.File, more, time.Now().Add(time.Second))
	r.more = more[:n]
	if err == io.EOF {
		return nil // reading Content returns it too
	}
	return err
}

// ReadUntil reads until p is full, r fails, or the time until has passed and p
// has at least one byte. It does not interrupt a Read that blocks. Unlike
// [io.ReadFull] it returns io.EOF at the end of r.
func ReadUntil(r io.Reader, p []byte, until time.Time) (n int, err error) {
	for n < len(p) && err == nil && (n == 0 || time.Now().Before(until)) {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}
