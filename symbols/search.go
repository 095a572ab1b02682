package symbols

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Search returns a page of the symbols of all folders whose name contains text; its
// Version is 0. Names are compared under Unicode simple case folding: ẞ equals ß but
// not ss. They are not normalized.
//
// The names of all symbols are kept in memory, about 300 bytes for each symbol. A
// search reads the versions of their segments, and then the segments that have
// changed, so it never returns a stale result.
func (s *Service) Search(ctx context.Context, text string, r Range) (InfoPage, error) {
	if err := checkText("q", text); err != nil {
		return InfoPage{}, err
	}
	if n := utf8.RuneCountInString(text); n < 1 || n > maxName {
		return InfoPage{}, invalid(fmt.Sprintf("q must have 1 to %d characters", maxName))
	}
	segments, err := s.index.current(ctx, s.store)
	if err != nil {
		return InfoPage{}, storeError("read segments", err)
	}
	folded := fold(text)
	hashes := hashes(folded)
	var page InfoPage
	for _, segment := range segments {
		for info := range segment.matches(folded, hashes, r.After) {
			if r.Limit > 0 && len(page.Symbols) == r.Limit {
				page.More = true
				return page, nil
			}
			page.Symbols = append(page.Symbols, info)
		}
	}
	return page, nil
}

// searchIndex holds the segments of a store.
type searchIndex struct {
	reads    freshReads[struct{}, []*indexedSegment]
	segments map[int64]*indexedSegment // as of the last read, which alone uses it
}

// current returns the segments of a state that was current during the call, ids
// ascending. The list is read only.
func (x *searchIndex) current(ctx context.Context, store Store) ([]*indexedSegment, error) {
	return x.reads.get(ctx, struct{}{}, func(ctx context.Context, _ struct{}) ([]*indexedSegment, error) {
		return x.refresh(ctx, store)
	})
}

// refresh reads the segments that have changed.
func (x *searchIndex) refresh(ctx context.Context, store Store) ([]*indexedSegment, error) {
	current, err := store.ListSegments(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*indexedSegment, len(current))
	for i, segment := range current {
		indexed := x.segments[segment.ID]
		if indexed == nil || indexed.version != segment.Version {
			infos, err := store.ListSegment(ctx, segment.ID)
			if err != nil {
				return nil, err // the segments read so far are kept
			}
			indexed = newIndexedSegment(segment.Version, infos)
			x.segments[segment.ID] = indexed
		}
		list[i] = indexed
	}
	if len(x.segments) > len(list) {
		clear(x.segments)
		for i, segment := range current {
			x.segments[segment.ID] = list[i]
		}
	}
	return list, nil
}

// indexedSegment is a segment with an index of its names.
type indexedSegment struct {
	version Version
	symbols []SymbolInfo  // ids ascending
	names   []string      // folded
	having  *[512]nameSet // by hash of a byte, and of a pair of bytes, in the name; nil without symbols
}

// nameSet is a set of positions in a segment.
type nameSet [SegmentSize / 64]uint64

func newIndexedSegment(version Version, infos []SymbolInfo) *indexedSegment {
	s := &indexedSegment{version: version, symbols: infos, names: make([]string, len(infos))}
	if len(infos) > 0 { // all symbols may have been deleted
		s.having = new([512]nameSet)
	}
	for i, info := range infos {
		s.names[i] = fold(info.Name)
		for _, hash := range hashes(s.names[i]) {
			s.having[hash][i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// hashes returns the hashes of each byte of text and of each pair.
func hashes(text string) []int {
	list := make([]int, 0, 2*len(text))
	for i := range len(text) {
		one := int(text[i])
		list = append(list, one)
		if i > 0 {
			list = append(list, (int(text[i-1])*37+one*5+256)%512)
		}
	}
	return list
}

// matches yields the symbols with ids above after whose names contain text, which
// is folded and has the given hashes. It compares only names that have all of them:
// 20 times as fast as comparing 100,000 names.
func (s *indexedSegment) matches(text string, hashes []int, after int64) iter.Seq[SymbolInfo] {
	return func(yield func(SymbolInfo) bool) {
		if n := len(s.symbols); n == 0 || s.symbols[n-1].ID <= after {
			return
		}
		candidates := s.having[hashes[0]]
		for _, hash := range hashes[1:] {
			for word, names := range &s.having[hash] {
				candidates[word] &= names
			}
		}
		for word, names := range candidates {
			for ; names != 0; names &= names - 1 {
				i := word*64 + bits.TrailingZeros64(names)
				if s.symbols[i].ID > after && strings.Contains(s.names[i], text) && !yield(s.symbols[i]) {
					return
				}
			}
		}
	}
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
