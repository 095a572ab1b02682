package exports

import "context"

// List returns a page of the exports that the filter selects. To read all pages,
// continue with the last id while Page.More is true. The error matches [ErrInvalid] if
// Contains is longer than a source URL or not valid text.
//
// A search reads exports until the page is full, in the worst case all above After:
// 100,000 in 20 to 50 ms with any driver. If ctx ends before, it returns an error.
func (s *Service) List(ctx context.Context, filter Filter, r Range) (Page, error) {
	if err := checkText("q", filter.Contains); err != nil {
		return Page{}, err
	}
	page, err := s.store.List(ctx, filter, r)
	return page, storeError("list exports", err)
}

// Get returns the export with the id, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id int64) (Export, error) {
	export, err := s.store.Get(ctx, id)
	return export, storeError("get export", err)
}

// Remove deletes the export with the id, or returns [ErrNotFound]. A link keeps the
// file until its next plan.
func (s *Service) Remove(ctx context.Context, id int64) error {
	return storeError("delete export", s.store.Delete(ctx, id))
}
