package exports

import (
	"context"
	"slices"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// OpenBatch starts to open the files of the items that [Service.FindBatch] has
// returned. It waits until the first file that can be opened is prefetched, and for
// the sizes of the others: an eighth of that time longer, or 100 ms if the first file
// took at most 25 ms. If no file can be opened, the error is a [BatchError].
//
// When ctx ends, WriteZip fails.
func (s *Service) OpenBatch(ctx context.Context, items []BatchItem) (*Batch, error) {
	return s.openBatch(ctx, items, len(items), len(items))
}

func (s *Service) openBatch(ctx context.Context, items []BatchItem, requested, maxNamed int) (*Batch, error) {
	var jobs []prefetch.Job[batchFile]
	for _, item := range items {
		if item.Err == nil {
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
	}
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

// plan sets the size of the archive if that of each file is known. The argument took
// is how long the first file took.
func (b *Batch) plan(took time.Duration) {
	b.size = -1
	rest := b.queue.Rest(sizeWait(took))
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
			switch {
			case !outcome.Arrived:
				return
			case outcome.Err == nil:
				entry = b.entry(i, outcome.Result, names)
			default:
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
