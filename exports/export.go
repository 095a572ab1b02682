package exports

import (
	"cmp"
	"context"
	"time"
)

// Export is the registration of an exported file. Times are UTC, truncated to
// the millisecond.
type Export struct {
	ID           int64  // positive, ascending, never reused
	Tenant       string // see [Service.Tenant]
	SourceURL    string // lookup key, unique for a tenant
	ExportedURL  string // of the exported file
	FileName     string // as registered, empty if none
	RegisteredBy string // who registered it last, such as "key 7", or "anyone" without keys; empty: the application
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Filter selects the exports of a list. The zero value selects all.
type Filter struct {
	Contains string  // only exports whose SourceURL contains it, as bytes
	Tenant   *string // only those of this tenant, unless it is nil
}

// Range selects the first records of a list with ids above After. The zero value
// selects all records.
type Range struct {
	After int64 // an id, which need not exist; 0: from the start
	Limit int   // the maximum number of records; 0 or less: no limit
}

// Page is a part of a list of exports, ids ascending.
type Page struct {
	Exports []Export
	More    bool // exports with higher ids follow
}

// List returns a page of the exports that the filter selects, of all tenants by default. To
// read all pages, continue with the last id while Page.More is true. The error matches
// [ErrInvalid] if a text of the filter is longer than a source URL or not valid.
//
// A search reads exports until the page is full, in the worst case all above After:
// 100,000 in 20 to 50 ms with any driver. If ctx ends before, it returns an error.
func (s *Service) List(ctx context.Context, filter Filter, r Range) (Page, error) {
	if err := cmp.Or(checkText("q", filter.Contains), checkText("tenant", *cmp.Or(filter.Tenant, new(string)))); err != nil {
		return Page{}, err
	}
	page, err := s.store.List(ctx, filter, r)
	return page, storeError("list exports", err)
}

// Get returns the export with the id, of any tenant, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id int64) (Export, error) {
	export, err := s.store.Get(ctx, id)
	return export, storeError("get export", err)
}

// Delete removes the export with the id, of any tenant, or returns [ErrNotFound]. A link
// keeps the file until its next plan.
func (s *Service) Delete(ctx context.Context, id int64) error {
	return storeError("delete export", s.store.Delete(ctx, id))
}

// AssignTenant gives all exports and links of the tenant to another. The error is
// [ErrTaken], and nothing is changed, if both have an export of one source.
func (s *Service) AssignTenant(ctx context.Context, to string) error {
	if err := checkText("tenant", to); err != nil || to == s.tenant {
		return err
	}
	return storeError("assign tenant", s.store.AssignTenant(ctx, s.tenant, to))
}
