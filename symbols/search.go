package symbols

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Query is what a search looks for. The zero value matches everything, and is an
// [ErrInvalid] for [Service.Search].
type Query struct {
	words  []string // folded
	hashes []int    // of all words
}

// ParseQuery returns the query for a text: the words between its white space. The error
// matches [ErrInvalid] if there is none, or the text has more than 255 code points.
func ParseQuery(text string) (Query, error) {
	if err := checkText("q", text); err != nil {
		return Query{}, err
	}
	if n := utf8.RuneCountInString(text); n < 1 || n > maxName {
		return Query{}, invalid(fmt.Sprintf("q must have 1 to %d characters", maxName))
	}
	q := Query{words: strings.Fields(fold(text))}
	if len(q.words) == 0 {
		return Query{}, invalid("q must have a word")
	}
	for _, word := range q.words {
		q.hashes = append(q.hashes, hashes(word)...)
	}
	return q, nil
}

// Matches reports whether each word is contained in the name of a symbol or in one of its
// tags, in any order. Texts are compared under Unicode simple case folding: ẞ equals ß but
// not ss. They are not normalized.
func (q Query) Matches(name string, tags Tags) bool { return q.matches(foldAll(name, tags)) }

// foldAll returns the folded name and tags with NUL between them, which no word has.
func foldAll(name string, tags Tags) string {
	if tags == (Tags{}) {
		return fold(name)
	}
	return fold(name + "\x00" + strings.Join(tags.List(), "\x00"))
}

// matches is Matches for the result of foldAll.
func (q Query) matches(text string) bool {
	return !slices.ContainsFunc(q.words, func(word string) bool { return !strings.Contains(text, word) })
}

// Search returns a page of the symbols of all folders that match a query, at most 1,000;
// its Version is 0.
//
// The names are kept in memory as far as [Options.SearchIndex] permits. A search reads the
// versions of their segments, and then the segments that have changed or were not kept, so
// it never returns a stale result.
func (s *Service) Search(ctx context.Context, query Query, r Range) (InfoPage, error) {
	if len(query.words) == 0 {
		return InfoPage{}, invalid("q must have a word")
	}
	segments, err := s.index.list(ctx, s.store)
	if err != nil {
		return InfoPage{}, storeError("list segments", err)
	}
	limit := infoLimit(r.Limit)
	for page := (InfoPage{}); ; {
		rest := Range{After: r.After, Limit: limit - len(page.Symbols)}
		found, more, err := s.index.find(ctx, s.store, segments, s.tenant, query, rest)
		if err != nil {
			return InfoPage{}, storeError("read a segment", err)
		}
		if more {
			r.After = found[len(found)-1].ID
		}
		if found, err = s.complete(ctx, found, query); err != nil {
			return InfoPage{}, storeError("find symbol infos", err)
		}
		page.Symbols = append(page.Symbols, found...)
		if page.More = more; !more || len(page.Symbols) == limit {
			return page, nil
		}
	}
}

// complete reads the symbols of which only ids were found. Those that have changed in the
// meantime, and do not match any more, are left out.
func (s *Service) complete(ctx context.Context, found []SymbolInfo, query Query) ([]SymbolInfo, error) {
	var ids []int64
	for _, info := range found {
		if info.Version == 0 {
			ids = append(ids, info.ID)
		}
	}
	if ids == nil {
		return found, nil
	}
	read, err := s.store.FindSymbolInfos(ctx, ids)
	read = slices.DeleteFunc(read, func(info SymbolInfo) bool { return !query.Matches(info.Name, info.Tags) })
	found = slices.DeleteFunc(found, func(info SymbolInfo) bool { return info.Version == 0 })
	found = append(found, read...)
	slices.SortFunc(found, func(a, b SymbolInfo) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

// LoadSearchIndex reads what the first search would have to read. Package httpapi calls it
// in the background; an application without that may do so at startup.
func (s *Service) LoadSearchIndex(ctx context.Context) error {
	segments, err := s.index.list(ctx, s.store)
	for _, segment := range segments {
		if _, err = s.index.get(ctx, s.store, segment); err != nil || s.index.current(segment, 0) == nil {
			break // the index is full, if there is no error
		}
	}
	return storeError("load the search index", err)
}

// fold maps each character to the lowest one that equals it under simple case
// folding (Unicode, section 5.18).
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			return r
		}
		lowest := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			lowest = min(lowest, next)
		}
		return lowest
	}, text)
}
