package symbols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const maxRemoveTags = 1000

// BulkFields are what UpdateSymbols changes of each symbol.
type BulkFields struct {
	FolderID   *int64   // moves the symbols
	RemoveTags []string // up to 1,000
	AddTags    []string // after those that a symbol has
	By         int64    // see UpdatedBy of [Symbol]
}

func (f BulkFields) check() error {
	if err := checkGiven(f.FolderID, checkFolderID); err != nil {
		return err
	}
	if _, err := NewTags(f.AddTags...); err != nil {
		return invalid("addTags" + strings.TrimPrefix(err.Error(), "tags"))
	}
	if len(f.RemoveTags) > maxRemoveTags {
		return invalid(fmt.Sprintf("removeTags must be at most %d", maxRemoveTags))
	}
	for i, tag := range f.RemoveTags {
		field := fmt.Sprintf("removeTags[%d]", i)
		if err := checkText(field, tag); err != nil {
			return err
		}
		if slices.Contains(f.AddTags, tag) {
			return invalid(field + " is also in addTags")
		}
	}
	return nil
}

func (f BulkFields) apply(info *SymbolInfo) (err error) {
	if f.FolderID != nil {
		info.FolderID = *f.FolderID
	}
	tags := slices.DeleteFunc(info.Tags.List(), func(tag string) bool { return slices.Contains(f.RemoveTags, tag) })
	for _, tag := range f.AddTags {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if info.Tags, err = NewTags(tags...); err != nil {
		return invalid(fmt.Sprintf("addTags: symbol %d would have more than %d tags", info.ID, maxTags))
	}
	return nil
}

// UpdateSymbols changes 1 to 1,000 symbols, all or none, and returns how many have changed.
// The error is a [MissingError] for a symbol, or for the folder.
func (s *Service) UpdateSymbols(ctx context.Context, ids []int64, fields BulkFields) (int, error) {
	if err := cmp.Or(checkIDs(ids), fields.check()); err != nil {
		return 0, err
	}
	n, err := s.store.UpdateSymbols(ctx, ids, Stamp{s.now(), fields.By}, fields.apply)
	if errors.Is(err, ErrFolderNotFound) && fields.FolderID != nil {
		err = &MissingError{ErrFolderNotFound, *fields.FolderID}
	}
	return n, storeError("update symbols", err)
}

// DeleteSymbols deletes 1 to 1,000 symbols, all or none. The error is a [MissingError].
func (s *Service) DeleteSymbols(ctx context.Context, ids []int64, by int64) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	return s.deleteSymbols(ctx, ids, s.deletion(Any, by))
}

func (s *Service) deleteSymbols(ctx context.Context, ids []int64, d Deletion) error {
	err := s.store.DeleteSymbols(ctx, ids, d)
	if err == nil {
		s.prune(ctx)
	}
	return storeError("delete symbols", err)
}
