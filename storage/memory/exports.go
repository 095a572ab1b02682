package memory

import (
	"context"
	"slices"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/paging"
)

// tenantSource is what is unique for an export.
type tenantSource struct{ tenant, source string }

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
	source := tenantSource{export.Tenant, export.SourceURL}
	if id, ok := s.db.sources[source]; ok {
		if export, err = rule.Replace(s.db.exports[id], export); err != nil {
			return exports.Export{}, false, err
		}
		s.db.exports[id] = export
		return export, false, nil
	}
	s.db.lastExportID++
	export.ID = s.db.lastExportID
	s.db.exports[export.ID] = export
	s.db.sources[source] = export.ID
	s.db.exportIDs = append(s.db.exportIDs, export.ID)
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

func (s exportStore) List(ctx context.Context, filter exports.Filter, r exports.Range) (page exports.Page, err error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	var list []exports.Export
	ids, _ := inRange(s.db.exportIDs, r.After, 0)
	for _, id := range ids {
		if ctx.Err() != nil || len(list) == paging.FetchLimit(r.Limit) {
			break
		}
		export := s.db.exports[id]
		if strings.Contains(export.SourceURL, filter.Contains) && (filter.Tenant == nil || *filter.Tenant == export.Tenant) {
			list = append(list, export)
		}
	}
	if err := ctx.Err(); err != nil {
		return exports.Page{}, err
	}
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

func (s exportStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make([]exports.Export, 0, len(sources))
	given := make(map[string]bool, len(sources))
	for _, source := range sources {
		id, ok := s.db.sources[tenantSource{tenant, source}]
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
	delete(s.db.sources, tenantSource{export.Tenant, export.SourceURL})
	s.db.exportIDs = without(s.db.exportIDs, id)
	return nil
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for source := range s.db.sources {
		if _, taken := s.db.sources[tenantSource{to, source.source}]; source.tenant == from && taken {
			return exports.ErrTaken
		}
	}
	for id, export := range s.db.exports {
		if export.Tenant == from {
			delete(s.db.sources, tenantSource{from, export.SourceURL})
			s.db.sources[tenantSource{to, export.SourceURL}] = id
			export.Tenant = to
			s.db.exports[id] = export
		}
	}
	for digest, link := range s.db.links {
		if link.Tenant == from {
			link.Tenant = to
			s.db.links[digest] = link
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
