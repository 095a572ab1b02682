package exports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"example.com/canvasback/exports/internal/filefacts"
)

// factStore is a [LinkStore] for package filefacts. Without one it stores nothing.
type factStore struct{ links LinkStore }

func (s factStore) FindFacts(ctx context.Context, urls ...filefacts.Key) ([]filefacts.Record, error) {
	if s.links == nil {
		return nil, nil
	}
	list, err := s.links.FindFacts(ctx, urls...)
	records := make([]filefacts.Record, len(list))
	for i, fact := range list {
		records[i] = filefacts.Record(fact)
	}
	return records, err
}

func (s factStore) PutFacts(ctx context.Context, records []filefacts.Record, limit int) error {
	if s.links == nil {
		return nil
	}
	list := make([]Fact, len(records))
	for i, record := range records {
		list[i] = Fact(record)
	}
	return s.links.PutFacts(ctx, list, limit)
}

// factKey identifies an exported URL.
func factKey(exportedURL string) filefacts.Key { return sha256.Sum256([]byte(exportedURL)) }

// confirmFact records a file as its upstream has just described it. It returns nil if
// nothing can be known about the file, such as without a Validator.
func (s *Service) confirmFact(exportedURL string, file *File) *filefacts.Fact {
	return s.facts.Confirm(filefacts.Record{
		URL: factKey(exportedURL), Validator: file.Validator, Size: file.Size, CRC32: file.CRC32,
		Type: file.Type, Name: file.Name, Modified: file.Modified,
	})
}

// knownFile returns a file as its fact describes it.
func knownFile(r filefacts.Record) *File {
	return &File{Size: r.Size, Type: r.Type, Name: r.Name, Modified: r.Modified, Validator: r.Validator}
}

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
		body, cancel, err := openWithin(ctx, s.openTimeout, func(ctx context.Context) (io.ReadCloser, error) {
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
