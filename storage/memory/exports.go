package memory

import (
	"context"

	"example.com/canvasback/exports"
)

type exportStore struct{ db *DB }

var _ exports.Store = exportStore{}

func (s exportStore) Put(ctx context.Context, export exports.Export) (stored exports.Export, created bool, err error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return exports.Export{}, false, err
	}
	previous, replaced := s.db.exports[export.SourceURL]
	if replaced {
		export.ID, export.CreatedAt = previous.ID, previous.CreatedAt
	} else {
		s.db.lastExportID++
		export.ID = s.db.lastExportID
	}
	s.db.exports[export.SourceURL] = export
	return export, !replaced, nil
}

func (s exportStore) Find(ctx context.Context, sources ...string) ([]exports.Export, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make([]exports.Export, 0, len(sources))
	given := make(map[string]bool, len(sources))
	for _, source := range sources {
		export, ok := s.db.exports[source]
		if ok && !given[source] {
			found = append(found, export)
		}
		given[source] = true
	}
	return found, nil
}

func (s exportStore) Delete(ctx context.Context, source string) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, ok := s.db.exports[source]; !ok {
		return exports.ErrNotFound
	}
	delete(s.db.exports, source)
	return nil
}
