package exports

import (
	"context"
	"fmt"
)

// Find returns the export that is registered for a source address, or
// [ErrNotFound]. The error matches [ErrInvalid] if source is no address.
func (s *Service) Find(ctx context.Context, source string) (Export, error) {
	source, err := checkSource("sourceFileUrl", source)
	if err != nil {
		return Export{}, err
	}
	list, err := s.store.Find(ctx, source)
	if err != nil {
		return Export{}, storeError("find export", err)
	}
	if len(list) == 0 {
		return Export{}, ErrNotFound
	}
	return list[0], nil
}

// Found is the outcome of [Service.FindBatch]: for each source address of a
// batch, in the order of the request and repeats included, its export or the
// fact that it has none. Its zero value is of no use.
type Found struct {
	items []item
}

// item is a member of a batch. Of an export that is not registered only the
// source address is known.
type item struct {
	export     Export
	registered bool
}

// Exports returns the exports of those addresses that have one. It is not
// empty.
func (f *Found) Exports() []Export {
	var list []Export
	for _, item := range f.items {
		if item.registered {
			list = append(list, item.export)
		}
	}
	return list
}

// Skipped returns an element for each address that has none.
func (f *Found) Skipped() []Skipped {
	var list []Skipped
	for _, item := range f.items {
		if !item.registered {
			list = append(list, skip(item.export.SourceURL, ErrNotFound))
		}
	}
	return list
}

// FindBatch looks up every source address of a batch. If none has an export,
// the error is a [BatchError]. It matches [ErrInvalid] if there are no
// addresses, too many, or one is none.
func (s *Service) FindBatch(ctx context.Context, sources []string) (*Found, error) {
	if len(sources) == 0 {
		return nil, invalid("items must not be empty")
	}
	if len(sources) > s.maxItems {
		return nil, invalid(fmt.Sprintf("items must have at most %d elements", s.maxItems))
	}
	trimmed := make([]string, len(sources))
	for i, source := range sources {
		var err error
		if trimmed[i], err = checkSource(fmt.Sprintf("items[%d].sourceFileUrl", i), source); err != nil {
			return nil, err
		}
	}
	list, err := s.store.Find(ctx, trimmed...)
	if err != nil {
		return nil, storeError("find exports", err)
	}
	bySource := make(map[string]Export, len(list))
	for _, export := range list {
		bySource[export.SourceURL] = export
	}
	found := &Found{items: make([]item, len(trimmed))}
	for i, source := range trimmed {
		export, ok := bySource[source]
		export.SourceURL = source
		found.items[i] = item{export, ok}
	}
	if len(list) == 0 {
		return nil, &BatchError{Skipped: found.Skipped(), Err: ErrNotFound}
	}
	return found, nil
}
