package exports

import (
	"bytes"
	"context"
	"slices"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// OpenBatch starts to open the files of the items that [Service.FindBatch] has
// returned. It waits until the first file that can be opened is prefetched, and for
// the sizes of the others: an eighth of that time longer, or 100 ms if the first file
// took at most 25 ms. Sizes of files that are not open then are taken from earlier
// downloads. If no file can be opened, the error is a [BatchError].
//
// When ctx ends, WriteZip fails.
func (s *Service) OpenBatch(ctx context.Context, items []BatchItem) (*Batch, error) {
	return s.openBatch(ctx, items, len(items), len(items))
}

func (s *Service) openBatch(ctx context.Context, items []BatchItem, requested, maxNamed int) (*Batch, error) {
	var jobs []prefetch.Job[batchFile]
	var urls []filefacts.Key
	for _, item := range items {
		if item.Err == nil {
			urls = append(urls, factKey(item.Export.ExportedURL))
			jobs = append(jobs, prefetch.Job[batchFile]{
				Host:        hostOf(item.Export.ExportedURL),
				Concurrency: s.concurrency(item.Export.ExportedURL),
				Open: func(ctx context.Context) (batchFile, error) {
					download, err := s.Open(ctx, item.Named())
					return batchFile{download}, err
				},
			})
		}
	}
	b := &Batch{
		ctx: ctx, service: s, now: s.now(), items: items, current: -1, requested: requested, maxNamed: maxNamed,
		known: make(chan map[filefacts.Key]*filefacts.Fact, 1),
	}
	go b.loadFacts(urls)
	b.queue = prefetch.New(ctx, s.prefetch, jobs)
	start, opened := time.Now(), false
	defer func() { // also if an Opener panics
		if !opened {
			b.Close()
		}
	}()
	if err := b.advance(func() {}); err != nil {
		return nil, newBatchError(b.skipped)
	}
	b.plan(time.Since(start))
	opened = true
	return b, nil
}

// loadFacts loads what is known about the files, while the first one is opened. If
// that fails, the size may be unknown.
func (b *Batch) loadFacts(urls []filefacts.Key) {
	var known map[filefacts.Key]*filefacts.Fact
	var err error
	defer func() { b.known <- known }()
	defer recoverToError(&err)
	slices.SortFunc(urls, func(a, b filefacts.Key) int { return bytes.Compare(a[:], b[:]) })
	known, err = b.service.facts.Load(b.ctx, slices.Compact(urls))
}

// plan sets the size of the archive if that of each file is known. The argument took
// is how long the first file took.
func (b *Batch) plan(took time.Duration) {
	b.size = -1
	rest := b.queue.Rest(sizeWait(took))
	var known map[filefacts.Key]*filefacts.Fact
	if slices.ContainsFunc(rest, func(o prefetch.Outcome[batchFile]) bool { return !o.Arrived }) {
		known = <-b.known
	}
	planned := make([]*zipstream.Entry, len(b.items))
	names := filename.NewDedup(manifestName)
	skipped := slices.Clone(b.skipped)
	var entries []zipstream.Entry
	for i := b.current; i < len(b.items); i++ {
		var entry zipstream.Entry
		err := b.items[i].Err
		switch {
		case i == b.current:
			entry = b.entry(i, b.file, names)
		case err == nil:
			outcome := rest[0]
			rest = rest[1:]
			if !outcome.Arrived {
				entry = b.knownEntry(&b.items[i], known, names)
			} else if outcome.Err == nil {
				entry = b.entry(i, outcome.Result, names)
			} else {
				err = prefetchError(outcome.Err)
			}
		}
		if err != nil {
			skipped = append(skipped, newSkipped(b.items[i].SourceURL, err))
			continue
		}
		if entry.Size < 0 {
			return
		}
		planned[i] = &entry
		entries = append(entries, entry)
	}
	if len(skipped) > 0 {
		entry, _ := b.manifest(len(entries), skipped)
		entries = append(entries, entry)
	}
	if archive, err := zipstream.NewArchive(entries); err == nil {
		b.size, b.planned = archive.Size(), planned
	}
}

// sizeWait returns how long the first byte of an archive waits for the sizes of its
// files after the first one, which took some time. From a fast upstream, all that are
// prefetched arrive in three round trips. A slow one must not double the latency.
func sizeWait(took time.Duration) time.Duration {
	if took <= 25*time.Millisecond {
		return 100 * time.Millisecond
	}
	return took / 8
}

// knownEntry describes the zip entry of a file that is not open by a fact, with Size
// -1 if that is nil. Opening the file shows if the fact is wrong.
func (b *Batch) knownEntry(item *BatchItem, known map[filefacts.Key]*filefacts.Fact, names *filename.Dedup) zipstream.Entry {
	f := known[factKey(item.Export.ExportedURL)]
	if f == nil || f.Record().SeenAt.Before(item.Export.UpdatedAt) {
		return zipstream.Entry{Size: -1}
	}
	b.assumed = append(b.assumed, f)
	return zipEntry(item, knownFile(f.Record()), f, names)
}
