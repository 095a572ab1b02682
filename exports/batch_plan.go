package exports

import (
	"slices"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/zipstream"
)

// plan sets the size of the archive if that of each file is known.
func (b *Batch) plan() {
	b.size = -1
	describe := b.describeOpen()
	if describe == nil {
		describe = b.describeKnown(<-b.known)
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
		case export != nil:
			entry, err = describe(i, names)
		}
		if err != nil {
			skipped = append(skipped, Skip(b.items[i].SourceURL, prefetchError(err)))
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

// describeFunc describes the zip entry of an item, with Size -1 if that is unknown.
type describeFunc func(item int, names *filename.Dedup) (zipstream.Entry, error)

// describeOpen returns a function for all items with an export after the current one,
// in their order, or nil if some of their files are not open soon.
func (b *Batch) describeOpen() describeFunc {
	files, errs, ok := b.queue.Rest(sizeWait)
	if !ok {
		return nil
	}
	next := 0
	return func(item int, names *filename.Dedup) (zipstream.Entry, error) {
		next++
		if err := errs[next-1]; err != nil {
			return zipstream.Entry{}, err
		}
		return b.entry(item, files[next-1], names), nil
	}
}

// describeKnown returns a function for files that have not been opened.
func (b *Batch) describeKnown(known map[Digest]*fileFact) describeFunc {
	return func(item int, names *filename.Dedup) (zipstream.Entry, error) {
		export := b.items[item].Export
		f := known[urlDigest(export.ExportedURL)]
		if f == nil {
			return zipstream.Entry{Size: -1}, nil
		}
		file, seenAt := b.service.facts.describe(f)
		if seenAt.Before(export.UpdatedAt) { // opening the file shows if the fact is wrong
			return zipstream.Entry{Size: -1}, nil
		}
		b.assumed = append(b.assumed, f)
		return zipEntry(*export, file, f, names), nil
	}
}
