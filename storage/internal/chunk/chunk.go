// Package chunk searches source URLs with an index that any ordered table can be.
//
// The index of a URL consists of its chunks: the [Size] bytes at each offset that
// is a multiple of [Step], fewer at the end of the URL. Where a URL contains a text,
// one of its chunks begins at an offset of 0 to Step-1 in the text. So four lookups,
// one for each alignment, find all occurrences. A text of [MinLong] bytes or more has
// whole chunks at all alignments, and of those the rarest are looked up.
//
// A table with the primary key (chunk, export id) yields the exports of a chunk in
// the order of their ids. A page therefore costs as much as its candidates, however
// many follow. The exports of a prefix are in no order, so a short text that is
// frequent is searched without the index.
package chunk

import (
	"context"
	"slices"

	"example.com/canvasback/exports"
)

const (
	Size = 8
	Step = 4

	// MinLong is the length of the shortest text with whole chunks at all
	// alignments.
	MinLong = Size + Step - 1

	// Probe is a number of exports that tells rare from frequent chunks.
	Probe = 16

	maxGroups = 16   // of Step chunks of a text that are considered
	maxBatch  = 4096 // ids
	maxShort  = 2000 // candidates of a short text
)

// Index is an index of exports. Its results are as of some time during the call.
type Index interface {
	// Reach returns for each chunk the [Probe]-th lowest id above after of the
	// exports that have it, or the maximum of int64 if there are fewer.
	Reach(ctx context.Context, chunks []string, after int64) ([]int64, error)

	// IDs returns the lowest ids above after of the exports that have one of the
	// chunks, ascending, each once, at most limit of them.
	IDs(ctx context.Context, chunks [Step]string, after int64, limit int) ([]int64, error)

	// Match returns those of the exports with the ids whose SourceURL contains
	// text, ids ascending, at most limit of them. The given ids ascend.
	Match(ctx context.Context, ids []int64, text string, limit int) ([]exports.Export, error)
}

// OrderedIndex is an Index that also finds chunks by a prefix.
type OrderedIndex interface {
	Index

	// Prefixed returns the ids of exports that have a chunk from one of the bounds
	// up to the next bound, which is excluded. Bounds come in pairs. The ids may
	// be repeated, in any order, at most limit of them.
	Prefixed(ctx context.Context, bounds [2 * Step]string, limit int) ([]int64, error)

	// Scan is List without the index.
	Scan(ctx context.Context, filter exports.Filter) ([]exports.Export, error)
}

// Split yields the chunks of a URL, possibly more than once.
func Split(url string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(url); i += Step {
			if !yield(url[i:min(i+Size, len(url))]) {
				return
			}
		}
	}
}

// List returns the exports that a filter selects, ids ascending.
func List(ctx context.Context, index OrderedIndex, filter exports.Filter) ([]exports.Export, error) {
	switch n := len(filter.Contains); {
	case n >= MinLong:
		return Search(ctx, index, filter)
	case n < Step:
		return index.Scan(ctx, filter)
	}
	var bounds [2 * Step]string
	for i := range Step {
		prefix := filter.Contains[i:min(i+Size, len(filter.Contains))]
		end := []byte(prefix)
		end[len(end)-1]++ // a byte of UTF-8 is below 0xff
		bounds[2*i], bounds[2*i+1] = prefix, string(end)
	}
	ids, err := index.Prefixed(ctx, bounds, maxShort)
	if err != nil {
		return nil, err
	}
	if len(ids) == maxShort { // there may be more
		return index.Scan(ctx, filter)
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id <= filter.After })
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return match(ctx, index, filter, func(int64) ([]int64, bool, error) { return ids, true, nil })
}

// Search is List for a Contains of [MinLong] bytes or more.
func Search(ctx context.Context, index Index, filter exports.Filter) ([]exports.Export, error) {
	chunks, err := rarest(ctx, index, filter.Contains, filter.After)
	if err != nil {
		return nil, err
	}
	batch := min(filter.Limit, maxBatch)
	return match(ctx, index, filter, func(after int64) ([]int64, bool, error) {
		ids, err := index.IDs(ctx, chunks, after, batch)
		last := len(ids) < batch
		batch = min(2*batch, maxBatch)
		return ids, last, err
	})
}

// match returns those candidates that the filter selects. The function next returns
// the next candidates after an id, and whether they are the last.
func match(ctx context.Context, index Index, filter exports.Filter, next func(after int64) ([]int64, bool, error)) (list []exports.Export, err error) {
	for after := filter.After; ; {
		ids, last, err := next(after)
		if err != nil || len(ids) == 0 {
			return list, err
		}
		matches, err := index.Match(ctx, ids, filter.Contains, filter.Limit-len(list))
		if err != nil {
			return nil, err
		}
		if list = append(list, matches...); last || len(list) == filter.Limit {
			return list, nil
		}
		after = ids[len(ids)-1]
	}
}

// rarest returns for each alignment the chunk of a text that the fewest of the next
// exports after an id have: the reach of a rare chunk is far. Of a very long text it
// considers groups of chunks that are spread over the text.
func rarest(ctx context.Context, index Index, text string, after int64) (chunks [Step]string, err error) {
	last := len(text) - MinLong // start of the last group
	groups := min(last/Step+2, maxGroups)
	var considered []string
	var alignments []int
	for group := range groups {
		start := last * group / (groups - 1)
		for i := start; i < start+Step; i++ {
			considered, alignments = append(considered, text[i:i+Size]), append(alignments, i%Step)
		}
	}
	reach, err := index.Reach(ctx, considered, after)
	if err != nil {
		return chunks, err
	}
	var farthest [Step]int64
	for i, alignment := range alignments {
		if reach[i] > farthest[alignment] {
			farthest[alignment], chunks[alignment] = reach[i], considered[i]
		}
	}
	return chunks, nil
}
