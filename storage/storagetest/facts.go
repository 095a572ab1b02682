package storagetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/canvasback/exports"
)

var factChecks = []check{
	{"facts are found as stored", factsFound},
	{"PutFacts replaces facts", factsReplaced},
	{"FindFacts accepts 1,000 URLs", factsMany},
	{"facts are bounded", factsLimit},
	{"PutFacts keeps facts of a higher revision", factsRevision},
	{"facts are not shared with the caller", factsValues},
	{"facts persist", factsPersist},
}

const manyFacts = 100_000

func newFact(url string) exports.Fact {
	crc := uint32(1<<32 - 1)
	return exports.Fact{
		URL:       digestOf(url),
		Validator: `"` + url + `"`,
		Size:      1 << 50,
		Revision:  1 << 40,
		CRC32:     &crc,
		Blocks:    []byte{0, 1, 255},
	}
}

func putFacts(t testing.TB, s Storage, facts ...exports.Fact) {
	t.Helper()
	must(t, linkStore(t, s).PutFacts(t.Context(), facts, manyFacts))
}

// summary formats a value for a message.
func summary(value any) string {
	text := fmt.Sprintf("%+v", value)
	return text[:min(len(text), 1000)]
}

// wantFacts checks what FindFacts returns for the URLs.
func wantFacts(t testing.TB, s Storage, urls []string, want ...exports.Fact) {
	t.Helper()
	var digests [][32]byte
	for _, url := range urls {
		digests = append(digests, digestOf(url))
	}
	got, err := linkStore(t, s).FindFacts(t.Context(), digests...)
	must(t, err)
	byURL := func(a, b exports.Fact) int { return bytes.Compare(a.URL[:], b.URL[:]) }
	slices.SortFunc(got, byURL)
	want = slices.SortedFunc(slices.Values(want), byURL)
	equal := func(a, b exports.Fact) bool {
		sameBlocks := bytes.Equal(a.Blocks, b.Blocks)
		a.Blocks, b.Blocks = nil, nil
		return sameBlocks && reflect.DeepEqual(a, b)
	}
	if !slices.EqualFunc(got, want, equal) {
		t.Errorf("FindFacts returns %s, want %s", summary(got), summary(want))
	}
}

func factsFound(t *testing.T, s Harness) {
	wantFacts(t, s, nil)
	wantFacts(t, s, []string{"a"})
	must(t, linkStore(t, s).PutFacts(t.Context(), nil, 1))
	a, b := newFact("a"), newFact("b")
	b.Size, b.CRC32, b.Blocks = 0, nil, []byte{}
	zero := newFact("zero")
	zero.CRC32 = new(uint32)
	zero.Blocks = bytes.Repeat([]byte{1, 2, 3, 4}, 1<<15)
	partial := newFact("partial")
	partial.CRC32 = nil
	putFacts(t, s, a, b, zero, partial)
	wantFacts(t, s, []string{"a", "missing", "b", "zero", "partial"}, a, b, zero, partial)
	wantFacts(t, s, []string{"b"}, b)
	for i, text := range sampleTexts {
		fact := newFact(strconv.Itoa(i))
		fact.Validator = text
		putFacts(t, s, fact)
		wantFacts(t, s, []string{strconv.Itoa(i)}, fact)
	}
}

func factsReplaced(t *testing.T, s Harness) {
	a, b := newFact("a"), newFact("b")
	putFacts(t, s, a, b)
	a.Validator, a.Size, a.CRC32, a.Blocks = "other", 5, nil, []byte{}
	putFacts(t, s, a, newFact("c"))
	wantFacts(t, s, []string{"a", "b", "c"}, a, b, newFact("c"))
}

func factsMany(t *testing.T, s Harness) {
	var urls []string
	var facts []exports.Fact
	for i := range 1000 {
		urls = append(urls, strconv.Itoa(i))
		facts = append(facts, newFact(urls[i]))
	}
	putFacts(t, s, facts...)
	wantFacts(t, s, urls, facts...)
}

// factsLimit tries five times. A driver may count the facts of a call that it rolled back
// and repeated, as behind a pooler that loses prepared statements.
func factsLimit(t *testing.T, s Harness) {
	steps := []struct{ put, remain string }{
		{"a", "a"},
		{"bc", "abc"},
		{"d", "bcd"},
		{"b", "bcd"}, // now newer than c and d
		{"c", "bcd"},
		{"ef", "cef"},
	}
	pass := func(prefix string) error {
		for _, step := range steps {
			var facts []exports.Fact
			for _, url := range step.put {
				facts = append(facts, newFact(prefix+string(url)))
			}
			must(t, linkStore(t, s).PutFacts(t.Context(), facts, 3))
			remain := ""
			for _, url := range "abcdef" {
				found, err := linkStore(t, s).FindFacts(t.Context(), digestOf(prefix+string(url)))
				must(t, err)
				remain += strings.Repeat(string(url), len(found))
			}
			if remain != step.remain {
				return fmt.Errorf("after PutFacts of %s facts %s remain, want %s", step.put, remain, step.remain)
			}
		}
		return nil
	}
	err := pass("0")
	for i := 1; err != nil && i < 5; i++ {
		err = pass(strconv.Itoa(i))
	}
	must(t, err)
}

func factsRevision(t *testing.T, s Harness) {
	first, higher, same := newFact("a"), newFact("a"), newFact("a")
	higher.Revision, higher.Size, higher.CRC32, higher.Blocks = first.Revision+1, 5, nil, []byte{}
	same.Revision, same.Size = higher.Revision, 6
	putFacts(t, s, first, newFact("b"))
	putFacts(t, s, higher)
	putFacts(t, s, first, newFact("c"))
	wantFacts(t, s, []string{"a", "b", "c"}, higher, newFact("b"), newFact("c"))
	putFacts(t, s, first)
	wantFacts(t, s, []string{"a"}, higher)
	putFacts(t, s, same)
	wantFacts(t, s, []string{"a"}, same)
}

func factsValues(t *testing.T, s Harness) {
	given := newFact("a")
	putFacts(t, s, given)
	*given.CRC32 = 0
	given.Blocks[0]++
	got, err := linkStore(t, s).FindFacts(t.Context(), digestOf("a"))
	must(t, err)
	*got[0].CRC32 = 0
	got[0].Blocks[0]++
	wantFacts(t, s, []string{"a"}, newFact("a"))
}

func factsPersist(t *testing.T, s Harness) {
	second := s.reopen(t)
	putFacts(t, s, newFact("a"))
	wantFacts(t, second, []string{"a"}, newFact("a"))
}

// concurrentFacts puts the same facts in different orders.
func concurrentFacts(t *testing.T, handles []Storage) {
	linkStore(t, handles[0])
	const workers, rounds = 8, 5
	urls := []string{"a", "b", "c", "d"}
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		for round := range rounds {
			var facts []exports.Fact
			for _, url := range urls {
				fact := newFact(url)
				fact.Size = int64(i*rounds + round)
				facts = append(facts, fact)
			}
			if i%2 == 1 {
				slices.Reverse(facts)
			}
			if err := linkStore(t, s).PutFacts(t.Context(), facts, manyFacts); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	var digests [][32]byte
	for _, url := range urls {
		digests = append(digests, digestOf(url))
	}
	got, err := linkStore(t, handles[1]).FindFacts(context.Background(), digests...)
	must(t, err)
	if sizes := slices.CompactFunc(got, func(a, b exports.Fact) bool { return cmp.Compare(a.Size, b.Size) == 0 }); len(got) != len(urls) || len(sizes) != 1 {
		t.Errorf("FindFacts returns %d facts of %d calls, want %d of one", len(got), len(sizes), len(urls))
	}
}
