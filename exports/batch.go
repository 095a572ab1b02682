package exports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/canvasback/exports/filename"
)

// Batch is a zip about to be written. At least one of its files is open. It is
// not safe for concurrent use.
type Batch struct {
	items  []item
	now    time.Time
	ctx    context.Context
	cancel context.CancelFunc
	ahead  *ahead

	promise *promise // nil until one is made

	next    int    // the item whose turn it is
	ready   opened // its file
	skipped []Skipped
}

// OpenBatch begins to open the files of a batch, which [Service.FindBatch] has
// found, and returns when the first one that can be had is there: read to its
// end, or a little more than 1 MiB of it, or what has come of it in
// [Options.OpenTimeout]. The caller writes the batch and closes it. If no file
// can be had, the error is a [BatchError].
//
// The batch is bound to ctx: when ctx ends, writing it fails.
func (s *Service) OpenBatch(ctx context.Context, found *Found) (*Batch, error) {
	b := &Batch{items: found.items, now: s.now(), ahead: newAhead(s, found.Exports())}
	b.ctx, b.cancel = context.WithCancel(ctx)
	opened := false
	defer func() { // also if an Opener panics
		if !opened {
			b.Close()
		}
	}()
	b.ahead.start(b.ctx)
	var failures []error
	if failures, opened = b.advance(); !opened {
		return nil, &BatchError{Skipped: b.skipped, Err: wholeFailure(failures)}
	}
	return b, nil
}

// wholeFailure is the one error for a batch of which every file failed.
func wholeFailure(failures []error) error {
	for _, err := range failures {
		if !errors.Is(err, ErrTimeout) {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	return ErrTimeout
}

// advance finds the next item whose file can be had, and skips those before
// it. It returns the errors of files on the way, and false at the end.
func (b *Batch) advance() (failures []error, ok bool) {
	for ; b.next < len(b.items); b.next++ {
		item := b.items[b.next]
		err := ErrNotFound
		if item.registered {
			if b.ready = b.ahead.settle(b.ctx); b.ready.err == nil {
				return failures, true
			}
			err = b.ready.err
			failures = append(failures, err)
			b.ahead.finish(b.ctx)
		}
		b.skipped = append(b.skipped, skip(item.export.SourceURL, err))
	}
	return failures, false
}

// WriteZip writes the batch to w, once. If w has a method Flush() error, it is
// called before a wait for a file that does not come soon. Files that cannot be had are left out
// and listed in an entry manifest.json at the end. An error means that the
// archive is torn: w failed, ctx ended, a file broke that was too long or too
// slow to be known whole before its entry began, or the archive cannot have the size that
// [Batch.Size] has told.
func (b *Batch) WriteZip(w io.Writer) error {
	if flusher, ok := w.(interface{ Flush() error }); ok {
		b.ahead.waiting = func() { flusher.Flush() } // the next write will fail too
	}
	z := &zipWriter{w: w}
	names := filename.NewSet(manifestName)
	if b.promise != nil {
		z.size = b.promise.size
	}
	for ok := true; ok; _, ok = b.advance() {
		file := b.ahead.prospect(b.ahead.current())
		if b.promise == nil {
			file.name = names.Unique(file.name)
		}
		if err := b.writeEntry(z, file); err != nil {
			return fmt.Errorf("zip entry %q: %w", file.name, b.broken(err))
		}
		b.ahead.finish(b.ctx)
		b.next++
	}
	if err := b.ctx.Err(); err != nil {
		return err // what was skipped last was skipped for this reason
	}
	return b.broken(b.finishZip(z))
}

// writeEntry writes the file whose turn it is.
func (b *Batch) writeEntry(z *zipWriter, file prospect) error {
	if b.promise != nil {
		if err := b.promise.keep(z, b.next, &file); err != nil {
			return err
		}
		if b.next == len(b.items)-1 && len(b.skipped) == 0 { // no manifest follows
			if err := z.fit(file.name, file.modified, uint64(file.size), file.whole); err != nil {
				return err
			}
		}
	}
	if file.whole {
		return z.addSummed(file.name, file.modified, b.ready.head, b.ready.crc)
	}
	download := b.ready.download
	if err := z.addStream(file.name, file.modified, download.Size, b.ready.content()); err != nil {
		return err
	}
	// A file that was announced as a small one and had more to it is none
	// to build on.
	if size := int64(z.entries[len(z.entries)-1].size); size > window {
		export := b.items[b.next].export
		b.ahead.service.sizes.learn(export, originName(export, download), size, b.ready.at)
	}
	return nil
}

// finishZip writes what stands behind the files.
func (b *Batch) finishZip(z *zipWriter) error {
	if len(b.skipped) > 0 {
		content := b.manifest(len(z.entries), b.skipped)
		if err := z.fit(manifestName, b.now, uint64(len(content)), true); err != nil {
			return err
		}
		if err := z.addWhole(manifestName, b.now, content); err != nil {
			return err
		}
	}
	return z.close()
}

// manifest is the content of the entry manifest.json.
func (b *Batch) manifest(included int, skipped []Skipped) []byte {
	return manifest{GeneratedAt: b.now, Requested: len(b.items), Included: included, Skipped: skipped}.encode()
}

// modified is the time of modification of an entry: the file's own, else that
// of its registration, which stays the same from one download to the next.
func modified(download *Download, export Export) time.Time {
	if download.Modified.IsZero() {
		return export.UpdatedAt
	}
	return download.Modified
}

// Skipped returns what has been left out so far, in the order of the request.
// It is the batch's own list, which grows until the zip is written.
func (b *Batch) Skipped() []Skipped { return b.skipped }

// Close ends the batch, written or not, and every file that is open for it. It
// returns when nothing of it runs any more.
func (b *Batch) Close() error {
	b.cancel()
	b.ahead.close()
	return nil
}
