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

var _ exports.LinkStore = exportStore{}

func (s exportStore) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (stored exports.Export, created bool, err error) {
	stored, err = write(ctx, s.db, func() (exports.Export, error) {
		source := tenantSource{export.Tenant, export.SourceURL}
		id, exists := s.db.sources[source]
		if exists {
			if export, err = rule.Replace(s.db.exports[id], export); err != nil {
				return exports.Export{}, err
			}
		} else {
			s.db.lastExportID++
			id = s.db.lastExportID
			export.ID, created = id, true
			s.db.sources[source] = id
			s.db.exportIDs = append(s.db.exportIDs, id)
		}
		s.db.exports[id] = export
		return export, nil
	})
	return stored, created, err
}

func (s exportStore) Get(ctx context.Context, id int64) (exports.Export, error) {
	return read(ctx, s.db, func() (exports.Export, error) { return find(s.db.exports, id, exports.ErrNotFound) })
}

func (s exportStore) List(ctx context.Context, filter exports.Filter, r exports.Range) (page exports.Page, err error) {
	return read(ctx, s.db, func() (page exports.Page, err error) {
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
		page.Exports, page.More = paging.Cut(list, r.Limit)
		return page, ctx.Err()
	})
}

func (s exportStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	return read(ctx, s.db, func() ([]exports.Export, error) {
		var found []exports.Export
		for _, source := range slices.Compact(slices.Sorted(slices.Values(sources))) { // each once
			if id, ok := s.db.sources[tenantSource{tenant, source}]; ok {
				found = append(found, s.db.exports[id])
			}
		}
		return found, nil
	})
}

func (s exportStore) Delete(ctx context.Context, id int64) error {
	return s.db.change(ctx, func() error {
		export, err := find(s.db.exports, id, exports.ErrNotFound)
		if err != nil {
			return err
		}
		delete(s.db.exports, id)
		delete(s.db.sources, tenantSource{export.Tenant, export.SourceURL})
		s.db.exportIDs = without(s.db.exportIDs, id)
		return nil
	})
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	return s.db.change(ctx, func() error {
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
	})
}
