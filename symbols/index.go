package symbols

import (
	"context"
	"iter"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"example.com/canvasback/symbols/fresh"
)

// searchIndex keeps packed segments in memory, those with the lowest ids: every search
// begins there. The others are read by each search that gets to them. As far as there is
// room, segments have all that a search returns; what it finds in the others is read each time.
//
// Invariant: what a segment has was read after its version was.
type searchIndex struct {
	limit int64 // bytes of segments

	lists   fresh.Reads[struct{}, []Segment]
	reads   fresh.Reads[Segment, *packedSegment]
	reading chan struct{} // holds an element for each read; at most two, because long names take megabytes

	clock atomic.Int64 // orders calls and reads

	mu       sync.Mutex
	segments map[int64]*packedSegment
	size     int64 // bytes
}

// list returns the segments of a state that was current during the call, ids ascending.
func (x *searchIndex) list(ctx context.Context, store Store) ([]Segment, error) {
	return x.lists.Get(ctx, struct{}{}, func(ctx context.Context, _ struct{}) ([]Segment, error) {
		return store.ListSegments(ctx)
	})
}

// find returns the tenant's symbols in the given segments that match a query, and whether
// more of them do. Of those in segments that have only names it returns the ids.
func (x *searchIndex) find(
	ctx context.Context, store Store, segments []Segment, tenant string, query Query, r Range,
) (list []SymbolInfo, more bool, err error) {
	for _, segment := range segments {
		if (segment.ID+1)*SegmentSize <= r.After {
			continue
		}
		packed, err := x.get(ctx, store, segment)
		if err != nil {
			return nil, false, err
		}
		for info := range packed.matches(tenant, query) {
			switch {
			case info.ID <= r.After:
			case len(list) == r.Limit:
				return list, true, nil
			default:
				list = append(list, info)
			}
		}
	}
	return list, false, nil
}

// get returns a segment at its version or a later one. Concurrent calls share reads.
func (x *searchIndex) get(ctx context.Context, store Store, segment Segment) (*packedSegment, error) {
	called := x.clock.Add(1)
	if kept := x.current(segment, called); kept != nil {
		return kept, nil
	}
	return x.reads.Get(ctx, segment, func(ctx context.Context, _ Segment) (*packedSegment, error) {
		select {
		case x.reading <- struct{}{}:
			defer func() { <-x.reading }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if kept := x.current(segment, called); kept != nil {
			return kept, nil // another call has read it in the meantime
		}
		begun := x.clock.Add(1)
		list, err := store.ListSegment(ctx, segment.ID)
		if err != nil {
			return nil, err
		}
		packed := pack(segment, list)
		packed.begun = begun
		x.keep(packed)
		return packed, nil
	})
}

// current returns a segment if it is kept at its version, or as of a read that began after
// called; otherwise nil.
func (x *searchIndex) current(segment Segment, called int64) *packedSegment {
	x.mu.Lock()
	defer x.mu.Unlock()
	if kept := x.segments[segment.ID]; kept != nil && (kept.Version == segment.Version || kept.begun > called) {
		return kept
	}
	return nil
}

// keep replaces a segment. If they do not all fit, those with the highest ids keep only
// names, and if that is not enough, they are removed.
func (x *searchIndex) keep(packed *packedSegment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.replace(packed.ID, packed)
	for x.size > x.limit {
		highest, whole := int64(-1), int64(-1)
		for id, segment := range x.segments {
			highest = max(highest, id)
			if segment.infos != nil {
				whole = max(whole, id)
			}
		}
		if whole >= 0 {
			names := *x.segments[whole]
			names.infos = nil
			x.replace(whole, &names)
		} else {
			x.replace(highest, nil)
		}
	}
}

// replace replaces a segment, or removes it.
func (x *searchIndex) replace(id int64, packed *packedSegment) {
	x.size += packed.cost() - x.segments[id].cost()
	if packed == nil {
		delete(x.segments, id)
	} else {
		x.segments[id] = packed
	}
}

// packedSegment has the texts of the symbols in a segment: 16 bytes for the index of a
// symbol, 8 for its place, and the text itself. It is read only.
type packedSegment struct {
	Segment              // its version may be older than its symbols
	begun   int64        // when its read began
	text    string       // of all symbols, each folded
	places  []place      // ids ascending
	tenants []string     // of the symbols, each once
	having  *pairSets    // nil without symbols
	infos   []SymbolInfo // as places; nil if only names are kept
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
	s.places, s.having, s.infos = make([]place, len(list)), new(pairSets), make([]SymbolInfo, len(list))
	for i, symbol := range list {
		if i > 0 && symbol.Type == list[i-1].Type {
			symbol.Type = s.infos[i-1].Type // kept once
		}
		s.infos[i] = symbol.SymbolInfo
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
	const overhead, placeSize, setsSize, infoSize = 200, 8, 16 << 10, 96
	size := overhead + len(s.text) + placeSize*len(s.places)
	for _, tenant := range s.tenants {
		size += 16 + len(tenant)
	}
	if s.having != nil {
		size += setsSize
	}
	for i, info := range s.infos {
		size += infoSize + len(info.Name) + len(info.Tags.text)
		if i == 0 || info.Type != s.infos[i-1].Type {
			size += len(info.Type)
		}
	}
	return int64(size)
}

// matches yields the tenant's symbols that match a query, or only their ids. It compares the texts
// in groups that have all hashes: 20 times as fast as comparing 100,000 names.
func (s *packedSegment) matches(tenant string, query Query) iter.Seq[SymbolInfo] {
	return func(yield func(SymbolInfo) bool) {
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
func (s *packedSegment) matchGroup(group int, tenant uint16, query Query, yield func(SymbolInfo) bool) bool {
	first := group * groupSize
	start := uint32(0)
	if first > 0 {
		start = s.places[first-1].end
	}
	for i, place := range s.places[first:min(first+groupSize, len(s.places))] {
		if place.tenant == tenant && query.matches(s.text[start:place.end]) {
			info := SymbolInfo{ID: s.ID*SegmentSize + int64(place.id)}
			if s.infos != nil {
				info = s.infos[first+i]
			}
			if !yield(info) {
				return false
			}
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
