package exports

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sync"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// Section is a part of a link.
type Section struct{ Offset, Length int64 }

// linkReader reads sections of a resumable link. It is not safe for concurrent use.
type linkReader struct {
	ctx      context.Context
	cancel   context.CancelFunc
	link     *Link
	sections []Section
	entries  []planEntry
	facts    map[int]*filefacts.Fact // by entry, of those that the sections need
	onWait   func()

	queue   *prefetch.Queue[*filefacts.Reader]
	parts   []filePart
	next    int                                // index of the part that the queue returns next
	current prefetch.Result[*filefacts.Reader] // of the part before

	unknown []int          // entries whose CRC the sections need and nobody knew
	readers sync.WaitGroup // of what is missing of them
}

// filePart is a part of a file that the sections need.
type filePart struct {
	entry          int
	offset, length int64
}

// open starts to read sections of a resumable link, in the order in which they will be
// written. It returns when the first file that they include is open. Before a wait for a
// slow file, flush is called.
//
// When ctx ends, writeSection fails. The caller must close the linkReader.
func (l *Link) open(ctx context.Context, sections []Section, flush func() error) (*linkReader, error) {
	r := &linkReader{link: l, sections: sections, entries: l.plan.Entries}
	r.onWait = func() { flush() } // if it fails, so does the next write
	r.ctx, r.cancel = context.WithCancel(ctx)
	opened := false
	defer func() { // also if an Opener panics
		if !opened {
			r.Close()
		}
	}()
	if err := r.findFacts(); err != nil {
		return nil, err
	}
	r.planParts()
	jobs := make([]prefetch.Job[*filefacts.Reader], len(r.parts))
	for i, part := range r.parts {
		e, f := r.entries[part.entry], r.facts[part.entry]
		jobs[i] = prefetch.Job[*filefacts.Reader]{
			Host:        hostOf(e.URL),
			Concurrency: l.service.concurrency(e.URL),
			Limit:       int(f.Block()), // hides the latency
			Open: func(ctx context.Context) (*filefacts.Reader, error) {
				return f.Open(ctx, l.service.planSource(e), part.offset, part.length)
			},
		}
	}
	r.queue = prefetch.New(r.ctx, l.service.prefetch, jobs)
	if len(jobs) > 0 {
		if err := r.advance(); err != nil {
			return nil, err
		}
	} else if err := r.checkFirst(); err != nil {
		return nil, err
	}
	opened = true
	return r, nil
}

// needs yields what a section requires of each file, in order.
func (r *linkReader) needs(s Section) func(yield func(zipstream.Need) bool) {
	return func(yield func(zipstream.Need) bool) {
		if !r.link.Zip {
			if s.Length > 0 {
				yield(zipstream.Need{Offset: s.Offset, Length: s.Length})
			}
			return
		}
		for need := range r.link.archive.Needs(s.Offset, s.Length) {
			if need.Entry < len(r.entries) && !yield(need) { // not of manifest.json
				return
			}
		}
	}
}

// findFacts sets facts, and reads from the store what this process does not know. If
// that fails, the response costs more reads.
func (r *linkReader) findFacts() error {
	r.facts = make(map[int]*filefacts.Fact)
	find := func(entry int) (err error) {
		r.facts[entry], err = r.link.service.planFact(r.entries[entry])
		return err
	}
	incomplete := make(map[filefacts.Key]bool)
	for _, s := range r.sections {
		for need := range r.needs(s) {
			if err := find(need.Entry); err != nil {
				return err
			}
			f := r.facts[need.Entry]
			if _, known := f.CRC(); need.CRC && !known || !f.Includes(need.Offset, need.Length) {
				incomplete[factKey(r.entries[need.Entry].URL)] = true
			}
		}
	}
	if len(incomplete) == 0 {
		return nil
	}
	r.link.service.facts.Load(r.ctx, slices.Collect(maps.Keys(incomplete)))
	for entry := range r.facts {
		if err := find(entry); err != nil {
			return err
		}
	}
	return nil
}

// planParts sets the parts to read and the unknown CRCs. An empty part shows whether an
// empty file has changed.
func (r *linkReader) planParts() {
	planned := make(map[int]bool)
	for _, s := range r.sections {
		for need := range r.needs(s) {
			_, known := r.facts[need.Entry].CRC()
			switch {
			case need.Length > 0:
				r.parts = append(r.parts, filePart{need.Entry, need.Offset, need.Length})
			case planned[need.Entry]:
			case r.entries[need.Entry].Size == 0:
				r.parts = append(r.parts, filePart{entry: need.Entry})
				planned[need.Entry] = true
			case !known:
				r.unknown = append(r.unknown, need.Entry)
				planned[need.Entry] = true
			}
		}
	}
}

// checkFirst returns an error if the sections include headers only and the file of the
// first one is lost.
func (r *linkReader) checkFirst() error {
	entry := 0
	if r.link.Zip {
		entry = r.link.archive.EntryAt(r.sections[0].Offset)
	}
	if entry < 0 || entry >= len(r.entries) {
		return nil
	}
	return r.link.service.checkPlanned(r.ctx, r.entries[entry])
}

// parallelCRCs is how many files one response reads for their CRCs at a time.
const parallelCRCs = 4

// readUnknown starts to read what is missing of the files whose CRC is unknown, when all
// content is sent. Until then other responses may read it. CRC waits for the result, and
// finds the same errors.
func (r *linkReader) readUnknown() {
	if r.next < len(r.parts) || len(r.unknown) == 0 {
		return
	}
	entries := make(chan int, len(r.unknown))
	for _, entry := range r.unknown {
		entries <- entry
	}
	close(entries)
	r.unknown = nil
	for range min(parallelCRCs, len(entries)) {
		r.readers.Go(func() {
			for entry := range entries {
				r.readMissing(entry)
			}
		})
	}
}

// readMissing returns the CRC of a file, and reads what is missing for it.
func (r *linkReader) readMissing(entry int) (crc uint32, err error) {
	defer recoverToError(&err)
	crc, err = r.facts[entry].ReadMissing(r.ctx, r.link.service.planSource(r.entries[entry]))
	if err != nil {
		return 0, openError(err, nil)
	}
	return crc, nil
}

// advance opens the next part.
func (r *linkReader) advance() (err error) {
	if r.next == len(r.parts) {
		return fmt.Errorf("%w: it is not part of the sections", ErrFailed)
	}
	r.current, err = r.queue.Next(r.onWait)
	r.next++
	if err != nil {
		return prefetchError(err)
	}
	return nil
}

// writeSection writes one of the sections to w. It must be called once for each, in
// their order.
func (r *linkReader) writeSection(w io.Writer, index int) (err error) {
	defer func() {
		if err != nil && r.ctx.Err() != nil {
			err = r.ctx.Err()
		}
	}()
	s := r.sections[index]
	if r.link.Zip {
		return r.link.archive.WriteRange(w, s.Offset, s.Length, r)
	}
	if s.Length == 0 {
		return nil
	}
	content, err := r.Content(0, s.Offset, s.Length)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, content)
	if err == nil && n != s.Length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Content implements [zipstream.Source].
func (r *linkReader) Content(entry int, offset, length int64) (io.ReadCloser, error) {
	if entry >= len(r.entries) {
		return io.NopCloser(bytes.NewReader(r.link.manifest[offset : offset+length])), nil
	}
	want := filePart{entry, offset, length}
	for r.next == 0 || r.parts[r.next-1] != want {
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(r.current.Content()), nil
}

// CRC implements [zipstream.Source].
func (r *linkReader) CRC(entry int) (uint32, error) {
	if entry >= len(r.entries) {
		return crc32.ChecksumIEEE(r.link.manifest), nil
	}
	if crc, ok := r.facts[entry].CRC(); ok {
		empty := filePart{entry: entry}
		if r.next < len(r.parts) && r.parts[r.next] == empty {
			return crc, r.advance()
		}
		return crc, nil
	}
	r.onWait()
	r.readUnknown()
	return r.readMissing(entry)
}

// Close closes all files. It returns when no goroutine of the linkReader runs.
func (r *linkReader) Close() error {
	r.cancel()
	if r.queue != nil {
		r.queue.Close()
	}
	r.readers.Wait()
	return nil
}
