package chunk_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/chunk"
)

// entry is a row of an index.
type entry struct {
	chunk string
	id    int64
}

// fakeIndex is an OrderedIndex that counts what it reads.
type fakeIndex struct {
	entries []entry // in order
	urls    []string
	scans   int
	matched int // candidates
}

func newFakeIndex(urls []string) *fakeIndex {
	x := &fakeIndex{urls: urls}
	for i, url := range urls {
		for c := range chunk.Split(url) {
			x.entries = append(x.entries, entry{c, int64(i) + 1})
		}
	}
	slices.SortFunc(x.entries, func(a, b entry) int { return a.compare(b) })
	x.entries = slices.Compact(x.entries)
	return x
}

func (a entry) compare(b entry) int {
	if c := strings.Compare(a.chunk, b.chunk); c != 0 {
		return c
	}
	return int(a.id - b.id)
}

// ids returns the ids of a chunk above after.
func (x *fakeIndex) ids(c string, after int64) (ids []int64) {
	i, _ := slices.BinarySearchFunc(x.entries, entry{c, after + 1}, entry.compare)
	for ; i < len(x.entries) && x.entries[i].chunk == c; i++ {
		ids = append(ids, x.entries[i].id)
	}
	return ids
}

func (x *fakeIndex) Reach(_ context.Context, chunks []string, after int64) ([]int64, error) {
	reach := slices.Repeat([]int64{math.MaxInt64}, len(chunks))
	for i, c := range chunks {
		if ids := x.ids(c, after); len(ids) >= chunk.Probe {
			reach[i] = ids[chunk.Probe-1]
		}
	}
	return reach, nil
}

func (x *fakeIndex) IDs(_ context.Context, chunks [chunk.Step]string, after int64, limit int) (ids []int64, err error) {
	for _, c := range chunks {
		ids = append(ids, x.ids(c, after)...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(limit, len(ids))], nil
}

func (x *fakeIndex) Prefixed(_ context.Context, bounds [2 * chunk.Step]string, limit int) (ids []int64, err error) {
	for i := 0; i < len(bounds); i += 2 {
		j, _ := slices.BinarySearchFunc(x.entries, entry{chunk: bounds[i]}, entry.compare)
		for ; j < len(x.entries) && x.entries[j].chunk < bounds[i+1] && len(ids) < limit; j++ {
			ids = append(ids, x.entries[j].id)
		}
	}
	return ids, nil
}

func (x *fakeIndex) Match(_ context.Context, ids []int64, text string, limit int) (list []exports.Export, err error) {
	x.matched += len(ids)
	for _, id := range ids {
		if strings.Contains(x.urls[id-1], text) && len(list) < limit {
			list = append(list, exports.Export{ID: id})
		}
	}
	return list, nil
}

func (x *fakeIndex) Scan(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	x.scans++
	return x.scan(filter), nil
}

func (x *fakeIndex) scan(filter exports.Filter) (list []exports.Export) {
	for i, url := range x.urls {
		if id := int64(i) + 1; id > filter.After && strings.Contains(url, filter.Contains) && len(list) < filter.Limit {
			list = append(list, exports.Export{ID: id})
		}
	}
	return list
}

func TestList_EqualsScan(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var urls []string
	for range 3000 {
		url := make([]byte, random.IntN(60))
		for i := range url {
			url[i] = "aaaab"[random.IntN(5)] // so that chunks and their combinations repeat
		}
		urls = append(urls, string(url)+strings.Repeat("x", random.IntN(2)*200))
	}
	x := newFakeIndex(urls)
	for range 200 {
		url := urls[random.IntN(len(urls))]
		from := random.IntN(len(url) + 1)
		filter := exports.Filter{Contains: url[from:min(len(url), from+random.IntN(30)*(1+random.IntN(10)))], Limit: 1 + random.IntN(300)}
		if random.IntN(2) == 0 {
			filter.After = random.Int64N(3000)
		}
		got, err := chunk.List(t.Context(), x, filter)
		if err != nil || !slices.Equal(got, x.scan(filter)) {
			t.Fatalf("List of %+v returns %d exports and error %v, want %d", filter, len(got), err, len(x.scan(filter)))
		}
	}
	if x.scans == 0 {
		t.Error("no text was frequent")
	}
}

// TestList_ReadsFewCandidates counts the candidates of pages of 100 exports.
func TestList_ReadsFewCandidates(t *testing.T) {
	t.Parallel()
	var urls []string
	for i := range 20_000 {
		urls = append(urls, fmt.Sprintf("https://cad.example.com/projects/%03d/drawings/sheet-%07d.dwg", i*19%1000, i))
	}
	for text, most := range map[string]int{
		urls[7777]:                 20,
		"sheet-0007777.dwg":        20,
		"0007777":                  20, // short
		"projects/042/":            40,
		"projects/042/drawings":    40,
		"/drawings/sheet-":         100,
		"https://cad.example.com/": 100,
		"projects/042/sheet":       40,
		"missing/anywhere":         0,
	} {
		x := newFakeIndex(urls)
		if _, err := chunk.List(t.Context(), x, exports.Filter{Contains: text, Limit: 100}); err != nil || x.matched > most || x.scans > 0 {
			t.Errorf("List of %s reads %d candidates and scans %d times, want at most %d: %v", text, x.matched, x.scans, most, err)
		}
	}
}
