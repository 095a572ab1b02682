package exports

import (
	"bytes"
	"context"
	"io"

	"example.com/canvasback/exports/internal/filefacts"
)

// planFact returns the fact about a planned file. The error is [ErrChanged] if its
// content has changed since the plan was made.
func (s *Service) planFact(e planEntry) (*filefacts.Fact, error) {
	return s.facts.Find(filefacts.Record{
		URL: factKey(e.URL), Validator: e.Validator, Size: e.Size, Revision: e.Revision, CRC32: e.CRC32,
	})
}

// planSource returns what opens parts of a planned file. Opening a part of an empty one
// shows whether it has changed.
func (s *Service) planSource(e planEntry) filefacts.Source {
	return func(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
		u, opener, err := s.locate(e.URL)
		if err != nil {
			return nil, err
		}
		ranger, ok := opener.(RangeOpener)
		if !ok { // the configuration has changed
			return nil, ErrChanged
		}
		if e.Size == 0 {
			return io.NopCloser(bytes.NewReader(nil)), s.checkPlanned(ctx, e)
		}
		body, cancel, err := openWithin(ctx, s.options.OpenTimeout, func(ctx context.Context) (io.ReadCloser, error) {
			return ranger.OpenRange(ctx, u, Part{Validator: e.Validator, Size: e.Size, Offset: offset, Length: length})
		}, func(body io.ReadCloser) { body.Close() })
		if err != nil {
			return nil, err
		}
		return &partBody{body, cancel}, nil
	}
}

// partBody is an open part of a file.
type partBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the part and releases its connection.
func (b *partBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// checkPlanned returns an error if a planned file has changed.
func (s *Service) checkPlanned(ctx context.Context, e planEntry) error {
	file, err := s.stat(ctx, Export{ExportedURL: e.URL})
	if err == nil && (file.Validator != e.Validator || file.Size != e.Size) {
		err = ErrChanged
	}
	return err
}
