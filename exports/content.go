package exports

import (
	"context"
	"fmt"
	"io"
	"time"

	"example.com/canvasback/exports/internal/checksum"
)

// saveInterval is how often a long read stores the sums of what it has read.
const saveInterval = 5 * time.Second

// contentReader reads a part of a file, adds its sums to the file's fact, and
// notices content that differs from an earlier read: the validator did not change
// with the content. It drops the fact then.
type contentReader struct {
	body   io.ReadCloser
	facts  *facts
	fact   *fileFact
	sums   *checksum.Writer
	skip   int64 // bytes that are read for their sums only
	length int64 // bytes that Read returns
	pinned bool  // Read fails if the content differs from an earlier read
	saveAt time.Time
	cancel context.CancelCauseFunc
}

// openPart opens length bytes of a planned file from offset. It reads more before
// the offset to compare it with an earlier read. If complete is set, the read must
// yield the sums of all blocks from the one with offset.
func (s *Service) openPart(ctx context.Context, e planEntry, f *fileFact, offset, length int64, complete bool) (*contentReader, error) {
	u, opener, err := s.locate(e.URL)
	if err != nil {
		return nil, err
	}
	ranger, ok := opener.(RangeOpener)
	if !ok { // the configuration has changed
		return nil, ErrChanged
	}
	start := f.sums.Start(offset, complete)
	body, cancel, err := openWithin(ctx, s.openTimeout, func(ctx context.Context) (io.ReadCloser, error) {
		return ranger.OpenRange(ctx, u, Range{Validator: e.Validator, Size: e.Size, Offset: start, Length: offset + length - start})
	}, func(body io.ReadCloser) { body.Close() })
	if err != nil {
		return nil, err
	}
	return &contentReader{
		body: body, facts: s.facts, fact: f, sums: f.sums.Writer(start),
		skip: offset - start, length: length, pinned: true, saveAt: time.Now().Add(saveInterval), cancel: cancel,
	}, nil
}

// Read implements [io.Reader].
func (r *contentReader) Read(p []byte) (int, error) {
	for r.skip > 0 {
		var buffer [16 << 10]byte
		n, err := r.read(buffer[:min(r.skip, int64(len(buffer)))])
		r.skip -= int64(n)
		switch {
		case err == io.EOF && r.skip > 0:
			return 0, io.ErrUnexpectedEOF
		case err != nil && err != io.EOF:
			return 0, err
		}
	}
	return r.read(p)
}

func (r *contentReader) read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.sums == nil {
		return n, err
	}
	if _, sumErr := r.sums.Write(p[:n]); sumErr != nil {
		r.facts.drop(r.fact)
		if r.pinned {
			return 0, fmt.Errorf("%w: %w", ErrChanged, sumErr)
		}
		r.sums = nil
	}
	if n > 0 && time.Now().After(r.saveAt) {
		r.saveAt = time.Now().Add(saveInterval)
		r.facts.save(r.fact)
	}
	return n, err
}

// Close closes the file and stores the sums of what was read.
func (r *contentReader) Close() error {
	err := r.body.Close()
	r.cancel(nil)
	if r.sums != nil {
		r.sums.Close()
	}
	r.facts.save(r.fact)
	return err
}

// Length implements [prefetch.File].
func (r *contentReader) Length() int64 { return r.length }

// CanIdle implements [prefetch.File]: a pinned file can be resumed.
func (r *contentReader) CanIdle() bool { return true }

// learnSums reads those parts of a planned file between from and to whose sums are
// unknown. One caller at a time reads a file.
func (s *Service) learnSums(ctx context.Context, e planEntry, f *fileFact, from, to int64) (err error) {
	defer recoverToError(&err)
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if _, ok := f.sums.Total(); ok {
			return nil
		}
		offset, length := f.sums.Missing(from, to)
		if length == 0 {
			return nil
		}
		if err := s.readSums(ctx, e, f, offset, length); err != nil {
			return err
		}
	}
}

func (s *Service) readSums(ctx context.Context, e planEntry, f *fileFact, offset, length int64) error {
	select {
	case s.checksums <- struct{}{}:
		defer func() { <-s.checksums }()
	case <-ctx.Done():
		return ctx.Err()
	}
	part, err := s.openPart(ctx, e, f, offset, length, true)
	if err != nil {
		return err
	}
	defer part.Close()
	n, err := io.Copy(io.Discard, part)
	if err == nil && n != length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return openError(err, nil)
	}
	return nil
}

// learn makes a download add to the facts about its file while it is read.
func (s *Service) learn(export Export, d *Download, inZip bool) {
	file := cleanFile(d.File)
	d.fact = s.facts.confirm(urlDigest(export.ExportedURL), &file)
	if d.fact == nil {
		return
	}
	if _, known := d.fact.sums.Total(); d.local && (known || !inZip) {
		return // so that the kernel can copy it
	}
	d.Body = &contentReader{
		body: d.Body, facts: s.facts, fact: d.fact, sums: d.fact.sums.Writer(0),
		length: d.Size, saveAt: time.Now().Add(saveInterval), cancel: func(error) {},
	}
}
