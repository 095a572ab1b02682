package exports

import (
	"bytes"
	"cmp"
	"context"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"

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
	flush    func() error

	queue   *prefetch.Queue[*filefacts.Reader]
	parts   []zipstream.Need                   // to read
	next    int                                // index of the part that the queue returns next
	current prefetch.Result[*filefacts.Reader] // of the part before

	unknown []int // entries whose CRC the sections need and nobody knew
}

// open starts to read sections of a resumable link, in the order in which they will be
// written. It returns when the first file that they include is open. Before a wait for a
// slow file, flush is called.
//
// When ctx ends, writeSection fails. The caller must close the linkReader.
func (l *Link) open(ctx context.Context, sections []Section, flush func() error) (*linkReader, error) {
	r := &linkReader{link: l, sections: sections, entries: l.plan.Entries, flush: flush}
	r.ctx, r.cancel = context.WithCancel(ctx)
	opened := false
	defer func() { // also if an Opener panics
		if !opened {
			r.Close()
		}
	}()
	needs := l.plan.needs(sections)
	if err := r.findFacts(needs); err != nil {
		return nil, err
	}
	r.planParts(needs)
	jobs := make([]prefetch.Job[*filefacts.Reader], len(r.parts))
	for i, part := range r.parts {
		e, f := r.entries[part.Entry], r.facts[part.Entry]
		jobs[i] = prefetch.Job[*filefacts.Reader]{
			Host:        hostOf(e.URL),
			Concurrency: l.service.concurrency(e.URL),
			Open: func(ctx context.Context) (*filefacts.Reader, error) {
				return f.Open(ctx, l.service.planSource(e), part.Offset, part.Length)
			},
		}
	}
	r.queue = prefetch.New(r.ctx, l.service.prefetch, jobs)
	err := r.checkFirst()
	if len(jobs) > 0 {
		err = r.advance()
	}
	opened = err == nil
	return r, err
}

// needs returns what sections require of each file, in order.
func (p *plan) needs(sections []Section) (list []zipstream.Need) {
	for _, s := range sections {
		switch {
		case p.Zip:
			for need := range p.archive.Needs(s.Offset, s.Length) {
				if need.Entry < len(p.Entries) { // not of manifest.json
					list = append(list, need)
				}
			}
		case s.Length > 0:
			list = append(list, zipstream.Need{Offset: s.Offset, Length: s.Length})
		}
	}
	return list
}

// findFacts sets facts, after it has read from the store what other processes know. If that
// fails, the response costs more reads.
func (r *linkReader) findFacts(needs []zipstream.Need) (err error) {
	urls := make(map[filefacts.Key]bool)
	for _, need := range needs {
		urls[factKey(r.entries[need.Entry].URL)] = true
	}
	r.link.service.facts.Load(r.ctx, slices.Collect(maps.Keys(urls)))
	r.facts = make(map[int]*filefacts.Fact)
	for _, need := range needs {
		e := r.entries[need.Entry]
		r.facts[need.Entry], err = r.link.service.facts.Find(filefacts.Record{
			URL: factKey(e.URL), Validator: e.Validator, Size: e.Size, Revision: e.Revision, CRC32: e.CRC32,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// planParts sets the parts to read and the unknown CRCs. An empty part shows whether an
// empty file has changed.
func (r *linkReader) planParts(needs []zipstream.Need) {
	planned := make(map[int]bool)
	for _, need := range needs {
		_, known := r.facts[need.Entry].CRC()
		switch {
		case need.Length > 0:
			r.parts = append(r.parts, need)
		case planned[need.Entry]:
		case r.entries[need.Entry].Size == 0:
			r.parts = append(r.parts, need)
			planned[need.Entry] = true
		case !known:
			r.unknown = append(r.unknown, need.Entry)
			planned[need.Entry] = true
		}
	}
}

// checkFirst returns an error if the sections include headers only and the file of the
// first one is lost.
func (r *linkReader) checkFirst() error {
	entry := 0
	if r.link.Zip {
		entry = r.link.plan.archive.EntryAt(r.sections[0].Offset)
	}
	if len(r.parts) > 0 || entry < 0 || entry >= len(r.entries) {
		return nil
	}
	return r.link.service.checkPlanned(r.ctx, r.entries[entry])
}

// parallelCRCs is how many files one response reads for their CRCs at a time.
const parallelCRCs = 4

// parallelRanges is how long a response waits for others of the same archive to begin,
// which may read what it would read for CRCs.
const parallelRanges = 20 * time.Millisecond

// readUnknown reads what is missing of the files whose CRC is unknown, when all content
// is sent. Until then other responses may read it. The first error ends it.
func (r *linkReader) readUnknown() error {
	if r.next < len(r.parts) || len(r.unknown) == 0 {
		return nil
	}
	time.Sleep(parallelRanges)
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	unknown, config := r.unknown, r.link.service.prefetch
	r.unknown, config.Files = nil, parallelCRCs
	errs := prefetch.Parallel(config, make([]string, len(unknown)), func(i int) error {
		_, err := r.readMissing(ctx, unknown[i])
		if err != nil {
			cancel(err)
		}
		return err
	})
	return cmp.Or(context.Cause(ctx), cmp.Or(errs...))
}

// readMissing returns the CRC of a file, and reads what is missing for it.
func (r *linkReader) readMissing(ctx context.Context, entry int) (uint32, error) {
	crc, err := r.facts[entry].ReadMissing(ctx, r.link.service.planSource(r.entries[entry]))
	return crc, openError(err, nil)
}

func (r *linkReader) advance() (err error) {
	r.current, err = r.queue.Next(r.flush)
	r.next++
	return openError(err, nil)
}

// writeSection writes one of the sections to w. It must be called once for each, in
// their order.
func (r *linkReader) writeSection(w io.Writer, index int) (err error) {
	defer func() {
		if err != nil && r.ctx.Err() != nil {
			err = openError(r.ctx.Err(), nil)
		}
	}()
	s := r.sections[index]
	if r.link.Zip {
		return r.link.plan.archive.WriteRange(w, s.Offset, s.Length, r)
	}
	if s.Length == 0 {
		return nil
	}
	content, err := r.Content(0, s.Offset, s.Length)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content) // fails if it is too short
	return err
}

// Content implements [zipstream.Source].
func (r *linkReader) Content(entry int, offset, length int64) (io.Reader, error) {
	if entry >= len(r.entries) {
		return bytes.NewReader(r.link.plan.manifest[offset : offset+length]), nil
	}
	want := zipstream.Need{Entry: entry, Offset: offset, Length: length}
	for r.parts[r.next-1] != want {
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	return r.current.Content(), nil
}

// CRC implements [zipstream.Source].
func (r *linkReader) CRC(entry int) (crc uint32, err error) {
	if entry >= len(r.entries) {
		return crc32.ChecksumIEEE(r.link.plan.manifest), nil
	}
	if crc, ok := r.facts[entry].CRC(); ok {
		if r.next < len(r.parts) && r.parts[r.next] == (zipstream.Need{Entry: entry}) { // an empty file
			err = r.advance()
		}
		return crc, err
	}
	r.flush()
	if err := r.readUnknown(); err != nil {
		return 0, openError(err, nil)
	}
	return r.readMissing(r.ctx, entry)
}

// Close closes all files. It returns when no goroutine of the linkReader runs.
func (r *linkReader) Close() {
	r.cancel()
	if r.queue != nil {
		r.queue.Close()
	}
}

// planSource returns what opens parts of a planned file. Opening a part of an empty one
// shows whether it has changed.
func (s *Service) planSource(e planEntry) filefacts.Source {
	return func(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
		u, opener, _ := s.locate(e.URL)
		ranger, ok := opener.(RangeOpener)
		if !ok { // the configuration has changed
			return nil, ErrChanged
		}
		if e.Size == 0 {
			return io.NopCloser(bytes.NewReader(nil)), s.checkPlanned(ctx, e)
		}
		// The context of the body ends with that of the linkReader.
		body, _, err := openWithin(ctx, s.options.OpenTimeout, func(ctx context.Context) (io.ReadCloser, error) {
			return ranger.OpenRange(ctx, u, Part{Validator: e.Validator, Size: e.Size, Offset: offset, Length: length})
		}, func(body io.ReadCloser) { body.Close() })
		return body, err
	}
}

func (s *Service) checkPlanned(ctx context.Context, e planEntry) error {
	file, err := s.stat(ctx, Export{ExportedURL: e.URL})
	if err == nil && (file.Validator != e.Validator || file.Size != e.Size) {
		err = ErrChanged
	}
	return err
}
