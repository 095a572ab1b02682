package symbols

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// searchIndex keeps packed segments in memory, those with the lowest ids: every search
// begins there. The others are read by each search that gets to them.
//
// Invariant: what a segment has was read after its version was.
type searchIndex struct {
	limit int64 // bytes of segments; an eighth of that for symbols

	lists   freshReads[struct{}, []Segment]
	reads   freshReads[int64, *packedSegment] // by id
	reading chan struct{}                     // holds an element for each read; at most two, because long names take megabytes

	mu        sync.Mutex
	segments  map[int64]*packedSegment
	size      int64                 // bytes
	packs     int64                 // number of the last packed segment
	found     map[int64]foundSymbol // by id
	foundSize int64                 // bytes
}

// foundSymbol is a symbol as it was read after a search had found it in a packed segment. It
// is current for as long as that segment is. The version does not identify the segment,
// because a shared read may pack newer symbols under an older version.
type foundSymbol struct {
	SymbolInfo
	pack int64 // number of the packed segment
}

// cost returns about how many bytes the symbol takes in memory; a missing one takes none.
func (f foundSymbol) cost() int64 {
	if f.pack == 0 {
		return 0
	}
	return int64(200 + len(f.Name) + len(f.Type) + len(f.Tags.text))
}

// list returns the segments of a state that was current during the call, ids ascending.
func (x *searchIndex) list(ctx context.Context, store Store) ([]Segment, error) {
	return x.lists.get(ctx, struct{}{}, func(ctx context.Context, _ struct{}) ([]Segment, error) {
		return store.ListSegments(ctx)
	})
}

// find returns the ids of a tenant's symbols in the given segments that match a query, and
// whether more of them do.
func (x *searchIndex) find(
	ctx context.Context, store Store, segments []Segment, tenant string, query Query, r Range,
) (found []foundSymbol, more bool, err error) {
	for _, segment := range segments {
		if (segment.ID+1)*SegmentSize <= r.After {
			continue
		}
		packed, err := x.get(ctx, store, segment)
		if err != nil {
			return nil, false, err
		}
		for id := range packed.matches(tenant, query) {
			switch {
			case id <= r.After:
			case len(found) == r.Limit:
				return found, true, nil
			default:
				found = append(found, foundSymbol{SymbolInfo{ID: id}, packed.number})
			}
		}
	}
	return found, false, nil
}

// load returns those of the found symbols that exist, ids ascending. It keeps what it reads,
// and drops all that is kept if there is too much.
func (x *searchIndex) load(ctx context.Context, store Store, found []foundSymbol) (list []SymbolInfo, err error) {
	var missing []int64
	packs := make(map[int64]int64) // of missing
	x.mu.Lock()
	for _, f := range found {
		if kept, ok := x.found[f.ID]; ok && kept.pack == f.pack {
			list = append(list, kept.SymbolInfo)
		} else {
			missing, packs[f.ID] = append(missing, f.ID), f.pack
		}
	}
	x.mu.Unlock()
	if len(missing) == 0 {
		return list, nil
	}
	read, err := store.FindSymbolInfos(ctx, missing)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	for _, info := range read {
		loaded := foundSymbol{info, packs[info.ID]}
		if segment := x.segments[info.ID/SegmentSize]; segment == nil || segment.number != loaded.pack {
			continue // it has changed, or does not fit
		}
		if x.foundSize += loaded.cost() - x.found[info.ID].cost(); x.foundSize > x.limit/8 {
			x.found, x.foundSize = make(map[int64]foundSymbol), loaded.cost()
		}
		x.found[info.ID] = loaded
	}
	x.mu.Unlock()
	list = append(list, read...)
	slices.SortFunc(list, func(a, b SymbolInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// get returns a segment at its version or a later one.
func (x *searchIndex) get(ctx context.Context, store Store, segment Segment) (*packedSegment, error) {
	x.mu.Lock()
	kept := x.segments[segment.ID]
	x.mu.Unlock()
	if kept != nil && kept.Version == segment.Version {
		return kept, nil
	}
	return x.read(ctx, store, segment)
}

// read reads a segment from the store and keeps it. Concurrent calls share reads.
func (x *searchIndex) read(ctx context.Context, store Store, segment Segment) (*packedSegment, error) {
	return x.reads.get(ctx, segment.ID, func(ctx context.Context, id int64) (*packedSegment, error) {
		select {
		case x.reading <- struct{}{}:
			defer func() { <-x.reading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		list, err := store.ListSegment(ctx, id)
		if err != nil {
			return nil, err
		}
		packed := pack(segment, list)
		x.keep(id, packed)
		return packed, nil
	})
}

// keep replaces a segment, and then removes those with the highest ids that do not fit.
func (x *searchIndex) keep(id int64, packed *packedSegment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.packs++
	packed.number = x.packs
	x.size += packed.cost() - x.segments[id].cost()
	x.segments[id] = packed
	for x.size > x.limit {
		highest := slices.Max(slices.Collect(maps.Keys(x.segments)))
		x.size -= x.segments[highest].cost()
		delete(x.segments, highest)
	}
}

func (x *searchIndex) isKept(id int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.segments[id] != nil
}

// packedSegment has the texts of the symbols in a segment: 16 bytes for the index of a
// symbol, 8 for its place, and the text itself. It is read only.
type packedSegment struct {
	Segment           // its version may be older than its symbols
	number  int64     // unique in the index, from 1 on
	text    string    // of all symbols, each folded
	places  []place   // ids ascending
	tenants []string  // of the symbols, each once
	having  *pairSets // nil without symbols
}

// place is where a symbol is.
type place struct {
	id     uint16 // less the first id of the segment
	tenant uint16 // position in tenants
	end    uint32 // of its text
}

// groupSize is the number of symbols that share a bit of the index.
const groupSize = 4

// groupSet is a set of groups of symbols in a segment.
type groupSet [SegmentSize / groupSize / 64]uint64

// pairSets has, for each hash of a byte and of a pair of bytes, the groups whose texts
// have it.
type pairSets [512]groupSet

func pack(segment Segment, list []SegmentSymbol) *packedSegment {
	s := &packedSegment{Segment: segment}
	if len(list) == 0 { // all symbols may have been deleted
		return s
	}
	var text []byte
	s.places, s.having = make([]place, len(list)), new(pairSets)
	for i, symbol := range list {
		folded := foldAll(symbol.Name, symbol.Tags)
		text = append(text, folded...)
		tenant := slices.Index(s.tenants, symbol.Tenant)
		if tenant < 0 {
			tenant = len(s.tenants)
			s.tenants = append(s.tenants, symbol.Tenant)
		}
		s.places[i] = place{uint16(symbol.ID % SegmentSize), uint16(tenant), uint32(len(text))}
		group := i / groupSize
		for _, hash := range hashes(folded) {
			s.having[hash][group/64] |= 1 << (group % 64)
		}
	}
	s.text = string(text)
	return s
}

// cost returns how many bytes the segment takes in memory; a missing one takes none.
func (s *packedSegment) cost() int64 {
	if s == nil {
		return 0
	}
	const overhead, placeSize, setsSize = 200, 8, 16 << 10
	size := overhead + len(s.text) + placeSize*len(s.places)
	for _, tenant := range s.tenants {
		size += 16 + len(tenant)
	}
	if s.having != nil {
		size += setsSize
	}
	return int64(size)
}

// matches yields the ids of the tenant's symbols that match a query. It compares only the texts in
// groups that have all hashes: 20 times as fast as comparing 100,000 names.
func (s *packedSegment) matches(tenant string, query Query) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		own := slices.Index(s.tenants, tenant)
		if own < 0 {
			return
		}
		candidates := s.having[query.hashes[0]]
		for _, hash := range query.hashes[1:] {
			for i, groups := range &s.having[hash] {
				candidates[i] &= groups
			}
		}
		for i, groups := range candidates {
			for ; groups != 0; groups &= groups - 1 {
				if !s.matchGroup(i*64+bits.TrailingZeros64(groups), uint16(own), query, yield) {
					return
				}
			}
		}
	}
}

// matchGroup yields the tenant's symbols of a group that match. It returns what yield
// returns.
func (s *packedSegment) matchGroup(group int, tenant uint16, query Query, yield func(int64) bool) bool {
	first := group * groupSize
	start := uint32(0)
	if first > 0 {
		start = s.places[first-1].end
	}
	for _, place := range s.places[first:min(first+groupSize, len(s.places))] {
		if place.tenant == tenant && query.matches(s.text[start:place.end]) && !yield(s.ID*SegmentSize+int64(place.id)) {
			return false
		}
		start = place.end
	}
	return true
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
