package exports

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// ByteRange is a part of a link.
type ByteRange struct{ Offset, Length int64 }

// LinkReader delivers ranges of a link. It is not safe for concurrent use.
type LinkReader struct {
	ctx     context.Context
	cancel  context.CancelFunc
	link    *Link
	ranges  []ByteRange
	entries []planEntry
	facts   []*fileFact // by entry; nil if the ranges need nothing of it
	onWait  func()

	queue   *prefetch.Queue[*contentReader]
	jobs    []linkJob
	next    int                             // job that the queue returns next
	result  prefetch.Result[*contentReader] // of the job before
	errs    map[int]chan error              // of background reads, by entry
	readers sync.WaitGroup
}

// linkJob is a part of a file that the ranges include.
type linkJob struct {
	entry          int
	offset, length int64
}

// Open starts to read ranges of a resumable link, in the order in which they will
// be written. It returns when the first file that they include is open. If that
// file is lost, the error wraps [ErrChanged] or [ErrGone], and the caller may
// deliver what [Link.Renew] returns instead.
//
// Sums that the ranges need of other parts are read beside the sending.
//
// When ctx ends, WriteRange fails. The caller must close the LinkReader.
func (l *Link) Open(ctx context.Context, ranges ...ByteRange) (*LinkReader, error) {
	r := &LinkReader{link: l, ranges: ranges, entries: l.plan.Entries, onWait: func() {}, errs: make(map[int]chan error)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	opened := false
	defer func() { // also if an Opener panics
		if !opened {
			r.Close()
		}
	}()
	var err error
	due := r.prepare()
	jobs := make([]prefetch.Job[*contentReader], len(r.jobs))
	for i, job := range r.jobs {
		e, f := r.entries[job.entry], r.facts[job.entry]
		jobs[i] = prefetch.Job[*contentReader]{
			Host:  hostOf(e.URL),
			Limit: 64 << 10,
			Open: func(ctx context.Context) (*contentReader, error) {
				return l.service.openPart(ctx, e, f, job.offset, job.length, due[job.entry])
			},
		}
	}
	r.queue = prefetch.New(r.ctx, l.service.prefetch, jobs)
	if len(jobs) > 0 {
		err = r.advance()
	} else {
		err = r.checkFirst()
	}
	if err != nil {
		return nil, err
	}
	r.learn(due)
	opened = true
	return r, nil
}

// checkFirst returns an error if the ranges include headers only and the file of the
// first one is lost.
func (r *LinkReader) checkFirst() error {
	entry := 0
	if r.link.Zip {
		entry = r.link.archive.EntryAt(r.ranges[0].Offset)
	}
	if entry < 0 || entry >= len(r.entries) {
		return nil
	}
	e := r.entries[entry]
	file, err := r.link.service.stat(r.ctx, Export{ExportedURL: e.URL})
	if err == nil && (file.Validator != e.Validator || file.Size != e.Size) {
		err = ErrChanged
	}
	return err
}

// prepare sets jobs and facts. It returns the entries whose CRC the ranges need and
// the plan does not have.
func (r *LinkReader) prepare() (due map[int]bool) {
	r.facts = make([]*fileFact, len(r.entries))
	due = make(map[int]bool)
	for _, rng := range r.ranges {
		wanted := make(map[int]bool) // entries with content in the range
		for need := range r.needs(rng) {
			if need.Length > 0 {
				wanted[need.Entry] = true
			}
		}
		for need := range r.needs(rng) {
			if need.Entry >= len(r.entries) { // manifest.json
				continue
			}
			e := r.entries[need.Entry]
			if r.facts[need.Entry] == nil {
				r.facts[need.Entry] = r.link.service.facts.find(urlDigest(e.URL), e.Validator, e.Size)
			}
			if need.CRC && e.CRC32 == nil {
				due[need.Entry] = true
			}
			job := linkJob{need.Entry, need.Offset, need.Length}
			if r.link.Zip && !e.Streamed && e.CRC32 == nil {
				// Header and content come from one read of the complete file.
				job.offset, job.length = 0, e.Size
			}
			if wanted[need.Entry] && job.length > 0 {
				r.jobs = append(r.jobs, job)
				wanted[need.Entry] = false
			}
		}
	}
	r.loadFacts(due)
	return due
}

// needs yields what a range requires of each file.
func (r *LinkReader) needs(rng ByteRange) func(yield func(zipstream.Need) bool) {
	if r.link.Zip {
		return r.link.archive.Needs(rng.Offset, rng.Length)
	}
	return func(yield func(zipstream.Need) bool) {
		if rng.Length > 0 {
			yield(zipstream.Need{Offset: rng.Offset, Length: rng.Length})
		}
	}
}

// loadFacts reads from the store what this process does not know. If that fails,
// the response costs more reads.
func (r *LinkReader) loadFacts(due map[int]bool) {
	var urls []Digest
	seen := make(map[Digest]bool)
	for i, f := range r.facts {
		if f == nil || seen[f.url] {
			continue
		}
		seen[f.url] = true
		if _, ok := f.sums.Total(); !ok && (due[i] || f.sums.Known() == 0) {
			urls = append(urls, f.url)
		}
	}
	if len(urls) == 0 {
		return
	}
	r.link.service.facts.load(r.ctx, urls)
	for i, f := range r.facts {
		if f != nil {
			r.facts[i] = r.link.service.facts.find(f.url, f.validator, f.size)
		}
	}
}

// parallelSums is how many files one response reads for their sums at a time.
const parallelSums = 4

// learn starts to read the sums that are due and that the jobs will not yield.
func (r *LinkReader) learn(due map[int]bool) {
	type task struct {
		entry int
		to    int64
	}
	var tasks []task
	for i, f := range r.facts {
		if !due[i] {
			continue
		}
		if _, ok := f.sums.Total(); ok {
			continue
		}
		to := f.size
		for _, job := range r.jobs {
			if job.entry == i && job.offset+job.length == f.size {
				to = f.sums.Floor(job.offset)
			}
		}
		if to > 0 {
			tasks = append(tasks, task{i, to})
			r.errs[i] = make(chan error, 1)
		}
	}
	queue := make(chan task, len(tasks))
	for _, t := range tasks {
		queue <- t
	}
	close(queue)
	for range min(parallelSums, len(tasks)) {
		r.readers.Go(func() {
			for t := range queue {
				r.errs[t.entry] <- r.link.service.learnSums(r.ctx, r.entries[t.entry], r.facts[t.entry], 0, t.to)
			}
		})
	}
}

// advance opens the file of the next job.
func (r *LinkReader) advance() error {
	var err error
	r.result, err = r.queue.Next(r.onWait)
	r.next++
	if err != nil {
		return prefetchError(err)
	}
	return nil
}

// WriteRange writes one of the ranges to w. It must be called once for each, in
// their order. Before it waits for a slow file, it calls flush, which may be nil.
//
// If WriteRange returns an error, the response is incomplete and the caller must
// abort it. If a file is lost, the link is renewed by the next request.
func (r *LinkReader) WriteRange(w io.Writer, index int, flush func() error) error {
	if flush != nil {
		r.onWait = func() { flush() } // if it fails, so does the next write
	}
	rng := r.ranges[index]
	err := r.writeRange(w, rng)
	switch {
	case err == nil:
		return nil
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case IsLost(err):
		r.link.outdate()
	}
	return err
}

func (r *LinkReader) writeRange(w io.Writer, rng ByteRange) error {
	if r.link.Zip {
		return r.link.archive.WriteRange(w, rng.Offset, rng.Length, r)
	}
	if rng.Length == 0 {
		return nil
	}
	content, err := r.Content(0, rng.Offset, rng.Length)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, content)
	if err == nil && n != rng.Length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Content implements [zipstream.Source].
func (r *LinkReader) Content(entry int, offset, length int64) (io.ReadCloser, error) {
	if entry >= len(r.entries) {
		return io.NopCloser(bytes.NewReader(r.link.plan.Manifest[offset : offset+length])), nil
	}
	if err := r.seek(entry, offset, length); err != nil {
		return nil, err
	}
	job := r.jobs[r.next-1]
	if job.offset == offset && job.length == length {
		return io.NopCloser(r.result.Content()), nil
	}
	if !r.result.Complete {
		return nil, fmt.Errorf("%w: entry %d is not prefetched", ErrFailed, entry)
	}
	return io.NopCloser(bytes.NewReader(r.result.Prefix[offset-job.offset : offset-job.offset+length])), nil
}

// seek makes the job that includes a part of an entry the current one.
func (r *LinkReader) seek(entry int, offset, length int64) error {
	for {
		if r.next > 0 {
			if job := r.jobs[r.next-1]; job.entry == entry && job.offset <= offset && offset+length <= job.offset+job.length {
				return nil
			}
		}
		if r.next == len(r.jobs) {
			return fmt.Errorf("%w: entry %d is not part of the ranges", ErrFailed, entry)
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}

// CRC implements [zipstream.Source].
func (r *LinkReader) CRC(entry int) (uint32, error) {
	if entry >= len(r.entries) {
		return crc32.ChecksumIEEE(r.link.plan.Manifest), nil
	}
	e, f := r.entries[entry], r.facts[entry]
	if e.CRC32 != nil {
		return *e.CRC32, nil
	}
	if crc, ok := f.sums.Total(); ok {
		return crc, nil
	}
	if r.next < len(r.jobs) && r.jobs[r.next].entry == entry && !e.Streamed {
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	if done := r.errs[entry]; done != nil {
		if err := <-done; err != nil {
			return 0, err
		}
		done <- nil
	}
	if err := r.link.service.learnSums(r.ctx, e, f, 0, f.size); err != nil {
		return 0, err
	}
	crc, ok := f.sums.Total()
	if !ok {
		return 0, fmt.Errorf("%w: checksum of entry %d is unknown", ErrFailed, entry)
	}
	return crc, nil
}

// Close closes all files. It returns when no goroutine of the LinkReader runs.
func (r *LinkReader) Close() error {
	r.cancel()
	if r.queue != nil {
		r.queue.Close()
	}
	r.readers.Wait()
	return nil
}
