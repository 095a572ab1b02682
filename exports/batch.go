package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Batch is a zip about to be written. At least one of its files is open.
type Batch struct {
	items  []item
	clock  func() time.Time
	ctx    context.Context
	cancel context.CancelFunc
	ahead  *ahead

	next     int    // the item whose turn it is
	nextFile int    // the file whose turn it is
	ready    opened // the file of the next item
	skipped  []Skipped
}

// OpenBatch begins to open the files of a batch and returns when the first one
// is open; the caller writes the batch and closes it. If no file can be had,
// the error is a [BatchError].
//
// The batch is bound to ctx: when ctx ends, writing it fails.
func (s *Service) OpenBatch(ctx context.Context, found *Found) (*Batch, error) {
	b := &Batch{items: found.items, clock: s.clock, ahead: newAhead(s, found.Exports())}
	b.ctx, b.cancel = context.WithCancel(ctx)
	b.ahead.start(b.ctx, b.nextFile)

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
		if !item.registered {
			b.skipped = append(b.skipped, skip(item.export.SourceURL, ErrNotFound))
			continue
		}
		b.ready = <-b.ahead.files[b.nextFile].outcome
		if b.ready.err == nil {
			return failures, true
		}
		failures = append(failures, b.ready.err)
		b.skipped = append(b.skipped, skip(item.export.SourceURL, b.ready.err))
		b.finish()
	}
	return failures, false
}

// finish is done with the file whose turn it was and lets others begin.
func (b *Batch) finish() {
	if b.ready.download != nil {
		b.ready.download.Close()
	}
	b.ready = opened{}
	close(b.ahead.files[b.nextFile].finished)
	b.nextFile++
	b.ahead.start(b.ctx, b.nextFile)
}

// WriteZip writes the batch to w, once. Files that cannot be had are left out
// and listed in an entry manifest.json at the end. An error means that the
// archive is torn: w failed, ctx ended, or a file broke that was too long to
// be known whole before its entry began.
func (b *Batch) WriteZip(w io.Writer) error {
	z := &zipWriter{w: w}
	names := newEntryNames()
	for ok := true; ok; _, ok = b.advance() {
		download := b.ready.download
		name := names.unique(download.FileName)
		modified := download.Modified
		if modified.IsZero() {
			modified = b.items[b.next].export.UpdatedAt
		}
		var err error
		if b.ready.whole {
			err = z.addWhole(name, modified, b.ready.head)
		} else {
			err = z.addStream(name, modified, io.MultiReader(bytes.NewReader(b.ready.head), download.Body))
		}
		if err != nil {
			return fmt.Errorf("zip entry %q: %w", name, err)
		}
		b.finish()
		b.next++
	}
	if err := b.ctx.Err(); err != nil {
		return err // what was skipped last was skipped for this reason
	}
	if len(b.skipped) > 0 {
		if err := z.addWhole(manifestName, b.clock(), b.manifest(len(z.entries))); err != nil {
			return err
		}
	}
	return z.close()
}

// manifest is the content of manifest.json.
func (b *Batch) manifest(included int) []byte {
	type skippedJSON struct {
		SourceURL string `json:"sourceFileUrl"`
		Reason    string `json:"reason"`
	}
	skipped := make([]skippedJSON, len(b.skipped))
	for i, s := range b.skipped {
		skipped[i] = skippedJSON(s)
	}
	content, err := json.MarshalIndent(struct {
		GeneratedAt string        `json:"generatedAt"`
		Requested   int           `json:"requested"`
		Included    int           `json:"included"`
		Skipped     []skippedJSON `json:"skipped"`
	}{
		GeneratedAt: b.clock().UTC().Format("2006-01-02T15:04:05.000Z"),
		Requested:   len(b.items),
		Included:    included,
		Skipped:     skipped,
	}, "", "  ")
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return append(content, '\n')
}

// Skipped returns what has been left out so far, in the order of the request.
func (b *Batch) Skipped() []Skipped { return b.skipped }

// Close ends the batch, written or not, and every file that is open for it. It
// returns when nothing of it runs any more.
func (b *Batch) Close() error {
	b.cancel()
	if b.ready.download != nil {
		b.ready.download.Close()
	}
	b.ahead.close()
	return nil
}
