package exports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/canvasback/exports/filename"
)

// Batch is a zip about to be written. At least one of its files is open.
type Batch struct {
	items  []item
	now    time.Time
	ctx    context.Context
	cancel context.CancelFunc
	ahead  *ahead

	next    int    // the item whose turn it is
	ready   opened // its file
	skipped []Skipped
}

// OpenBatch begins to open the files of a batch and returns when the first one
// is open; the caller writes the batch and closes it. If no file can be had,
// the error is a [BatchError].
//
// The batch is bound to ctx: when ctx ends, writing it fails.
func (s *Service) OpenBatch(ctx context.Context, found *Found) (*Batch, error) {
	b := &Batch{items: found.items, now: s.now(), ahead: newAhead(s, found.Exports())}
	b.ctx, b.cancel = context.WithCancel(ctx)
	b.ahead.start(b.ctx)

	failures, ok := b.advance()
	if !ok {
		b.Close()
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

// sizePatience is how long the size of a batch may keep its first byte.
const sizePatience = 250 * time.Millisecond

// Size returns the size of the zip in bytes, or -1 if it is not known: the
// batch has more files than are opened ahead, an origin does not tell the size
// of a file, or one takes long to begin. It is to be called before
// [Batch.WriteZip], which then writes so much or fails.
func (b *Batch) Size() int64 {
	if !b.ahead.await(sizePatience) {
		return -1
	}
	z := &zipWriter{w: io.Discard}
	names := filename.NewSet(manifestName)
	skipped := b.skipped
	file := b.ahead.finished
	for _, item := range b.items[b.next:] {
		err := ErrNotFound
		if item.registered {
			outcome := b.ahead.files[file].known
			file++
			if err = outcome.err; err == nil {
				size := int64(len(outcome.head))
				if !outcome.whole {
					size = outcome.download.Size
				}
				if size < 0 {
					return -1
				}
				z.plan(names.Unique(outcome.download.FileName), modified(outcome.download, item.export), uint64(size), outcome.whole)
				continue
			}
		}
		skipped = append(skipped, skip(item.export.SourceURL, err))
	}
	if err := b.finishZip(z, skipped); err != nil {
		return -1
	}
	return int64(z.offset)
}

// WriteZip writes the batch to w, once. Files that cannot be had are left out
// and listed in an entry manifest.json at the end. An error means that the
// archive is torn: w failed, ctx ended, or a file broke that was too long to
// be known whole before its entry began.
func (b *Batch) WriteZip(w io.Writer) error {
	z := &zipWriter{w: w}
	names := filename.NewSet(manifestName)
	for ok := true; ok; _, ok = b.advance() {
		download := b.ready.download
		name := names.Unique(download.FileName)
		at := modified(download, b.items[b.next].export)
		var err error
		if b.ready.whole {
			err = z.addWhole(name, at, b.ready.head)
		} else {
			err = z.addStream(name, at, download.Size, b.ready.content())
		}
		if err != nil {
			return fmt.Errorf("zip entry %q: %w", name, err)
		}
		b.ahead.finish(b.ctx)
		b.next++
	}
	if err := b.ctx.Err(); err != nil {
		return err // what was skipped last was skipped for this reason
	}
	return b.finishZip(z, b.skipped)
}

// finishZip writes what stands behind the files.
func (b *Batch) finishZip(z *zipWriter, skipped []Skipped) error {
	if len(skipped) > 0 {
		content := manifest{
			GeneratedAt: b.now,
			Requested:   len(b.items),
			Included:    len(z.entries),
			Skipped:     skipped,
		}.encode()
		if err := z.addWhole(manifestName, b.now, content); err != nil {
			return err
		}
	}
	return z.close()
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
func (b *Batch) Skipped() []Skipped { return b.skipped }

// Close ends the batch, written or not, and every file that is open for it. It
// returns when nothing of it runs any more.
func (b *Batch) Close() error {
	b.cancel()
	b.ahead.close()
	return nil
}
