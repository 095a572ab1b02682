package memory

import (
	"context"
	"math"
	"slices"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/chunk"
)

type exportStore struct{ db *DB }

var (
	_ exports.Store     = exportStore{}
	_ exports.LinkStore = exportStore{}
)

func (s exportStore) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (stored exports.Export, created bool, err error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return exports.Export{}, false, err
	}
	if id, ok := s.db.sources[export.SourceURL]; ok {
		if export, err = rule.Replace(s.db.exports[id], export); err != nil {
			return exports.Export{}, false, err
		}
		s.db.exports[id] = export
		return export, false, nil
	}
	s.db.lastExportID++
	export.ID = s.db.lastExportID
	s.db.exports[export.ID] = export
	s.db.sources[export.SourceURL] = export.ID
	s.db.exportIDs = append(s.db.exportIDs, export.ID)
	for c := range chunk.Split(export.SourceURL) {
		if ids := s.db.exportChunks[c]; len(ids) == 0 || ids[len(ids)-1] != export.ID {
			s.db.exportChunks[c] = append(ids, export.ID)
		}
	}
	return export, true, nil
}

func (s exportStore) Get(ctx context.Context, id int64) (exports.Export, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return exports.Export{}, err
	}
	export, ok := s.db.exports[id]
	if !ok {
		return exports.Export{}, exports.ErrNotFound
	}
	return export, nil
}

func (s exportStore) List(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(filter.Contains) < chunk.MinLong {
		return exportIndex(s).Match(ctx, above(s.db.exportIDs, filter.After), filter.Contains, filter.Limit)
	}
	return chunk.Search(ctx, exportIndex(s), filter)
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
		id, ok := s.db.sources[source]
		if ok && !given[source] {
			found = append(found, s.db.exports[id])
		}
		given[source] = true
	}
	return found, nil
}

func (s exportStore) Delete(ctx context.Context, id int64) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	export, ok := s.db.exports[id]
	if !ok {
		return exports.ErrNotFound
	}
	delete(s.db.exports, id)
	delete(s.db.sources, export.SourceURL)
	s.db.exportIDs = without(s.db.exportIDs, id)
	for c := range chunk.Split(export.SourceURL) {
		if s.db.exportChunks[c] = without(s.db.exportChunks[c], id); len(s.db.exportChunks[c]) == 0 {
			delete(s.db.exportChunks, c)
		}
	}
	return nil
}

// without removes an id from ascending ids, in place.
func without(ids []int64, id int64) []int64 {
	if i, found := slices.BinarySearch(ids, id); found {
		return slices.Delete(ids, i, i+1)
	}
	return ids
}

// above returns the ascending ids above after.
func above(ids []int64, after int64) []int64 {
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	return ids[i:]
}

// exportIndex implements [chunk.Index] under the lock.
type exportIndex struct{ db *DB }

func (x exportIndex) Reach(_ context.Context, chunks []string, after int64) ([]int64, error) {
	reach := make([]int64, len(chunks))
	for i, c := range chunks {
		reach[i] = math.MaxInt64
		if ids := above(x.db.exportChunks[c], after); len(ids) >= chunk.Probe {
			reach[i] = ids[chunk.Probe-1]
		}
	}
	return reach, nil
}

func (x exportIndex) IDs(_ context.Context, chunks [chunk.Step]string, after int64, limit int) (ids []int64, err error) {
	for _, c := range chunks {
		next := above(x.db.exportChunks[c], after)
		ids = append(ids, next[:min(limit, len(next))]...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(limit, len(ids))], nil
}

func (x exportIndex) Match(ctx context.Context, ids []int64, text string, limit int) (list []exports.Export, err error) {
	for _, id := range ids {
		if err := ctx.Err(); err != nil || len(list) == limit {
			return list, err
		}
		if export := x.db.exports[id]; strings.Contains(export.SourceURL, text) {
			list = append(list, export)
		}
	}
	return list, nil
}
