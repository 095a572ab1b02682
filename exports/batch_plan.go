package exports

import (
	"slices"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

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
		err := ErrNotFound
		switch export := b.items[i].Export; {
		case i == b.current:
			entry, err = b.entry(i, b.file, names), nil
		case export == nil:
		default:
			outcome := rest[0]
			rest = rest[1:]
			if !outcome.Arrived {
				entry, err = b.knownEntry(export, known[factKey(export.ExportedURL)], names), nil
			} else if err = outcome.Err; err == nil {
				entry = b.entry(i, outcome.Result, names)
			}
		}
		if err != nil {
			skipped = append(skipped, newSkipped(b.items[i].SourceURL, prefetchError(err)))
			continue
		}
		if entry.Size < 0 {
			return
		}
		planned[i] = &entry
		entries = append(entries, entry)
	}
	if len(skipped) > 0 {
		entry, _ := newManifest(b.now, len(b.items), len(entries), skipped)
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
func (b *Batch) knownEntry(export *Export, f *filefacts.Fact, names *filename.Dedup) zipstream.Entry {
	if f == nil {
		return zipstream.Entry{Size: -1}
	}
	known := f.Record()
	if known.SeenAt.Before(export.UpdatedAt) {
		return zipstream.Entry{Size: -1}
	}
	b.assumed = append(b.assumed, f)
	return zipEntry(*export, knownFile(known), f, names)
}
