package exports

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// errBatchChanged means that a batch cannot have the size that Size returned.
var errBatchChanged = errors.New("exports: file changed after the size of the zip was announced")

// Batch is a zip archive with at least one open file. The caller must close it.
// It is not safe for concurrent use.
type Batch struct {
	ctx     context.Context
	service *Service
	now     time.Time
	items   []BatchItem
	queue   *prefetch.Queue[batchFile]
	current int                        // index of an item, -1 at first
	file    prefetch.Result[batchFile] // of the current item
	skipped []Skipped

	requested int // items, for the manifest
	maxNamed  int // skipped items in the manifest

	size    int64
	planned []*zipstream.Entry // by item, nil if skipped; no elements if the size is unknown
}

// advance moves to the next item whose file can be read, and skips those before
// it. After the last one it returns io.EOF.
func (b *Batch) advance(flush func() error) error {
	for b.current++; b.current < len(b.items); b.current++ {
		item := b.items[b.current]
		err := item.Err
		if err == nil {
			if b.file, err = b.queue.Next(flush); err == nil {
				return nil
			}
			err = openError(err, nil)
			if b.planned != nil && b.planned[b.current] != nil {
				return fmt.Errorf("%w: %w", errBatchChanged, err)
			}
		}
		b.skipped = append(b.skipped, newSkipped(item.SourceURL, err))
	}
	return io.EOF
}

// Size returns the size of the archive in bytes. It is -1 unless the size of
// each file was known when OpenBatch returned. WriteZip writes that many bytes or
// fails, even where it would otherwise skip a file.
func (b *Batch) Size() int64 { return b.size }

// WriteZip writes the archive to w. It must be called once. Files that cannot
// be opened are skipped and listed in the last entry, manifest.json. Before
// WriteZip waits for a slow file, it calls flush, which may be nil.
//
// If WriteZip returns an error, the archive is incomplete and the caller must
// abort the response.
func (b *Batch) WriteZip(w io.Writer, flush func() error) error {
	z := zipstream.NewWriter(w)
	names := filename.NewDedup(manifestName)
	var err error
	for ; err == nil; err = b.advance(flush) {
		entry := b.entry(b.current, b.file, names)
		if err := b.add(z, entry); err != nil {
			return fmt.Errorf("zip entry %q: %w", entry.Name, err)
		}
	}
	if b.ctx.Err() != nil {
		return b.ctx.Err() // the last items were skipped for this reason
	}
	if err != io.EOF {
		return err
	}
	if len(b.skipped) > 0 {
		if err := z.AddBytes(b.manifest(z.Len(), b.skipped)); err != nil {
			return err
		}
	}
	return z.Close()
}

// add adds the current file to the archive, with the given entry or the planned one. If the
// file was prefetched, discarded and opened again, only the planned entry may have a CRC,
// which must still be right.
func (b *Batch) add(z *zipstream.Writer, entry zipstream.Entry) (err error) {
	unknown := entry.Streamed
	if b.planned != nil {
		planned := *b.planned[b.current]
		if entry.Size != planned.Size && (entry.Size >= 0 || planned.Streamed) {
			return errBatchChanged
		}
		if !unknown {
			planned.CRC = entry.CRC
		}
		entry = planned
	}
	switch {
	case entry.Streamed:
		err = z.AddStream(entry, b.file.Content())
	case b.file.Complete:
		err = z.AddBytes(entry, b.file.Prefix)
	case unknown:
		err = b.addCompared(z, entry, errBatchChanged)
	default:
		err = b.addStored(z, entry)
	}
	if fact := b.file.File.fact; fact != nil && err == nil {
		fact.SetCRC(z.CRC())
	}
	return err
}

// addCompared writes a file that must have the CRC of the entry.
func (b *Batch) addCompared(z *zipstream.Writer, entry zipstream.Entry, different error) error {
	checksum := crc32.NewIEEE()
	err := z.AddStored(entry, io.TeeReader(b.file.Content(), checksum))
	if err == nil && checksum.Sum32() != entry.CRC {
		err = different
	}
	return err
}

// addStored writes a file of known CRC. The kernel may copy a local file, whose
// Validator is then compared instead of the CRC.
func (b *Batch) addStored(z *zipstream.Writer, entry zipstream.Entry) error {
	download := b.file.File.Download
	if !download.isLocal() {
		err := b.addCompared(z, entry, ErrChanged)
		if err == ErrChanged {
			download.fact.Invalidate()
		}
		return err
	}
	if err := z.AddStored(entry, b.file.Prefetched(), download.Body); err != nil {
		return err
	}
	again, err := b.service.Open(b.ctx, *b.items[b.current].Export) // its Opener may have no Stat
	if err == nil {
		again.Close()
		if again.Validator != download.Validator {
			err = ErrChanged
		}
	}
	return err
}

func (b *Batch) entry(item int, file prefetch.Result[batchFile], names *filename.Dedup) zipstream.Entry {
	download := file.File.Download
	entry := zipEntry(&b.items[item], &download.File, download.fact, names)
	if file.Complete {
		entry.Size, entry.CRC, entry.Streamed = int64(len(file.Prefix)), file.CRC, false
	}
	return entry
}

func (b *Batch) manifest(included int, skipped []Skipped) (zipstream.Entry, []byte) {
	return newManifest(b.now, b.requested, included, skipped[:min(len(skipped), b.maxNamed)])
}

// Skipped returns the items that have been left out so far, in the order of the
// request. The slice grows until WriteZip returns.
func (b *Batch) Skipped() []Skipped { return b.skipped }

// Close closes all files of the batch. It returns when no goroutine of the batch
// runs.
func (b *Batch) Close() error {
	b.queue.Close()
	return nil
}

// batchFile is a Download as a [prefetch.File].
type batchFile struct{ *Download }

func (f batchFile) Read(p []byte) (int, error) { return f.Body.Read(p) }
func (f batchFile) Length() int64              { return f.Size }

// CanIdle reports whether the file is local or can be resumed by its strong ETag.
func (f batchFile) CanIdle() bool {
	return f.isLocal() || f.ETag != "" && !strings.HasPrefix(f.ETag, "W/")
}

// OpenBatch starts to open the files of the items that [Service.FindBatch] has
// returned. It waits until the first file that can be opened is prefetched, and for
// the sizes of the others: an eighth of that time longer, or 100 ms if the first file
// took at most 25 ms. If no file can be opened, the error is a [BatchError]. An Err of an
// item that matches [ErrUnavailable] is the error of OpenBatch.
//
// When ctx ends, WriteZip fails.
func (s *Service) OpenBatch(ctx context.Context, items []BatchItem) (*Batch, error) {
	return s.openBatch(ctx, items, len(items), len(items))
}

func (s *Service) openBatch(ctx context.Context, items []BatchItem, requested, maxNamed int) (*Batch, error) {
	var jobs []prefetch.Job[batchFile]
	for _, item := range items {
		if errors.Is(item.Err, ErrUnavailable) {
			return nil, item.Err
		}
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
	if err := b.advance(nil); err != nil {
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
	wait := took / 8 // a slow upstream must not double the latency
	if took <= 25*time.Millisecond {
		wait = 100 * time.Millisecond // in three round trips, all that are prefetched arrive
	}
	rest, ok := b.queue.Rest(wait)
	if !ok {
		return
	}
	planned := make([]*zipstream.Entry, len(b.items))
	names := filename.NewDedup(manifestName)
	skipped := slices.Clone(b.skipped)
	var entries []zipstream.Entry
	file := b.file // of the current item
	for i := b.current; i < len(b.items); i++ {
		err := b.items[i].Err
		if err == nil && i > b.current {
			file, err = rest[0].Result, openError(rest[0].Err, nil)
			rest = rest[1:]
		}
		if err != nil {
			skipped = append(skipped, newSkipped(b.items[i].SourceURL, err))
			continue
		}
		entry := b.entry(i, file, names)
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
