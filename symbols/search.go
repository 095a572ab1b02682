package symbols

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Search returns the symbols of all folders in a range whose name contains text,
// ids ascending, and whether more follow. Names are compared under Unicode simple
// case folding: ẞ equals ß but not ss. They are not normalized.
//
// The names of all symbols are kept in memory, about 200 bytes for each symbol. A
// search reads the versions of their segments, and then the segments that have
// changed, so it never returns a stale result.
func (s *Service) Search(ctx context.Context, text string, r Range) (list []SymbolInfo, more bool, err error) {
	if err := checkText("q", text); err != nil {
		return nil, false, err
	}
	if n := utf8.RuneCountInString(text); n < 1 || n > maxName {
		return nil, false, invalid(fmt.Sprintf("q must have 1 to %d characters", maxName))
	}
	segments, err := s.index.current(ctx, s.store)
	if err != nil {
		return nil, false, storeError("read segments", err)
	}
	folded := fold(text)
	for _, segment := range segments {
		for info := range segment.matches(folded, r.After) {
			if r.Limit > 0 && len(list) == r.Limit {
				return list, true, nil
			}
			list = append(list, info)
		}
	}
	return list, false, nil
}

// searchIndex holds the segments of a store.
//
// Invariant: a refresh serves only the calls that began before it. So a result is
// not older than its call, and concurrent calls share refreshes.
type searchIndex struct {
	clock atomic.Int64 // orders calls and refreshes

	lock     chan struct{} // protects the fields below
	segments map[int64]*indexedSegment
	list     []*indexedSegment // as of the last refresh, ids ascending; read only
	begun    int64             // when the last refresh began
}

func newSearchIndex() *searchIndex {
	return &searchIndex{lock: make(chan struct{}, 1), segments: make(map[int64]*indexedSegment)}
}

// current returns the segments of a state that was current during the call.
func (x *searchIndex) current(ctx context.Context, store Store) ([]*indexedSegment, error) {
	called := x.clock.Add(1)
	select {
	case x.lock <- struct{}{}:
		defer func() { <-x.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.begun > called {
		return x.list, nil
	}
	begun := x.clock.Add(1)
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
	x.list, x.begun = list, begun
	return list, nil
}

// indexedSegment is a segment with the folded names of its symbols.
type indexedSegment struct {
	version Version
	symbols []SymbolInfo // ids ascending
	names   string       // folded, each followed by a NUL, which no name contains
	ends    []int        // of each name in names, NUL included
}

func newIndexedSegment(version Version, infos []SymbolInfo) *indexedSegment {
	s := &indexedSegment{version: version, symbols: infos, ends: make([]int, len(infos))}
	var names strings.Builder
	for i, info := range infos {
		names.WriteString(fold(info.Name))
		names.WriteByte(0)
		s.ends[i] = names.Len()
	}
	s.names = names.String()
	return s
}

// matches yields the symbols with ids above after whose names contain text, which
// is folded.
func (s *indexedSegment) matches(text string, after int64) func(yield func(SymbolInfo) bool) {
	return func(yield func(SymbolInfo) bool) {
		i, _ := slices.BinarySearchFunc(s.symbols, after, func(info SymbolInfo, after int64) int {
			if info.ID <= after {
				return -1
			}
			return 1
		})
		for i < len(s.symbols) {
			from := 0
			if i > 0 {
				from = s.ends[i-1]
			}
			at := strings.Index(s.names[from:], text)
			if at < 0 {
				return
			}
			i, _ = slices.BinarySearch(s.ends, from+at+1)
			if !yield(s.symbols[i]) {
				return
			}
			i++
		}
	}
}

// Contains reports whether a name contains text as in [Service.Search].
func Contains(name, text string) bool { return strings.Contains(fold(name), fold(text)) }

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
