package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// ids returns the ids of a list.
func ids(list response) (got []int64) {
	list.t.Helper()
	for _, symbol := range list.array() {
		got = append(got, int64(symbol.(map[string]any)["id"].(float64)))
	}
	return got
}

func upTo(n int64) (list []int64) {
	for id := range n {
		list = append(list, id+1)
	}
	return list
}

// smallCache caches no list of 6 MB, of which 4 MiB are read in advance.
func smallCache(options *httpapi.Options) { options.Limits.ListCache = 1 << 20 }

// TestSymbolList_LongListIsCached reads lists of 6 MB.
func TestSymbolList_LongListIsCached(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0)
	createFolder(t, otherProcess, "A", 30, 200_000)
	const path = "/symbol/folders/1/symbols"
	for _, encoding := range []string{"identity", "gzip"} {
		get := func() response {
			return h.send("GET", path, "", "x-api-key", h.rawKey, "Accept-Encoding", encoding).want(200)
		}
		want, before := get(), store.reads.Load()
		got := get()
		is.Equal(store.reads.Load(), before)
		is.Equal(string(got.body), string(want.body))
		is.Equal(got.header.Get("ETag"), want.header.Get("ETag"))
		is.True(want.header.Get("Content-Length") != "")
	}
}

// getChanging reads a list of 30 symbols, of which another process changes one meanwhile. The
// ETag matches no later list.
func getChanging(h *harness, store *hookedStore, other *symbols.Service, path string) response {
	h.t.Helper()
	store.onRead(func(after int64) error {
		if after == 26 {
			_, err := other.UpdateSymbol(h.t.Context(), 29, symbols.SymbolFields{Name: new("new")}, symbols.Any)
			return err
		}
		return nil
	})
	mixed := h.client("GET", path, "").want(200)
	store.onRead(func(int64) error { return nil })
	h.send("GET", path, "", "x-api-key", h.rawKey, "If-None-Match", mixed.header.Get("ETag")).want(200)
	return mixed
}

// TestSymbolList_LongListIsStreamed reads a list above the limit of what is read in
// advance.
func TestSymbolList_LongListIsStreamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, smallCache)
	createFolder(t, otherProcess, "A", 30, 200_000)
	const path = "/symbol/folders/1/symbols"
	response := h.client("GET", path, "").want(200)
	is.Equal(ids(response), upTo(30))
	is.Equal(response.header.Get("Content-Length"), "")
	tag := response.header.Get("ETag")
	is.True(strings.HasPrefix(tag, `"`))
	h.send("GET", path, "", "x-api-key", h.rawKey, "If-None-Match", tag).want(304)

	// A list that includes a concurrent change has another ETag.
	mixed := getChanging(h, store, otherProcess, path)
	is.True(mixed.header.Get("ETag") != tag)

	// A failure of the store aborts the response.
	store.failAfter(25)
	h.wantTruncated("GET", path, "")
}

// TestSymbolList_PageEndsEarly: a page does not have its complete limit of records if
// they are long.
func TestSymbolList_PageEndsEarly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, _, otherProcess := serveSymbols(t, 0, smallCache)
	createFolder(t, otherProcess, "A", 30, 200_000)
	const path = "/symbol/folders/1/symbols"
	var got []int64
	pages := 0
	for next := "?limit=28"; next != ""; pages++ {
		page := h.client("GET", path+next, "").want(200)
		is.True(page.header.Get("Content-Length") != "")
		is.Equal(h.client("GET", path+next, "").want(200).header.Get("ETag"), page.header.Get("ETag"))
		got = append(got, ids(page)...)
		next, _, _ = strings.Cut(strings.TrimPrefix(page.header.Get("Link"), "<"), ">")
	}
	is.Equal(got, upTo(30))
	is.True(pages > 1)
}

// TestSymbolList_LongListIsReadOnce reads a list of 15 pages without a cache.
func TestSymbolList_LongListIsReadOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = -1 })
	createFolder(t, otherProcess, "A", 30, 200_000)
	const path = "/symbol/folders/1/symbols"
	tags := make(map[string]bool)
	for range 2 {
		before := store.reads.Load()
		response := h.client("GET", path, "").want(200)
		is.Equal(ids(response), upTo(30))
		is.Equal(store.reads.Load()-before, int64(15))
		tags[response.header.Get("ETag")] = true
		h.send("GET", path, "", "x-api-key", h.rawKey, "If-None-Match", response.header.Get("ETag")).want(304)
	}
	is.Equal(len(tags), 2)

	// A change between the encoded part and the streamed rest.
	mixed := getChanging(h, store, otherProcess, path)
	is.Equal(ids(mixed), upTo(30))
	is.True(strings.Contains(string(mixed.body), `"name":"new"`))
}

func TestSymbolList_HeadOfLongList(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for limit, want := range map[int64][]int64{
		64 << 20: {15, 0, 0},
		-1:       {11, 11, 11},
	} {
		h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = limit })
		createFolder(t, otherProcess, "A", 30, 200_000)
		for _, pages := range want {
			before := store.reads.Load()
			head := h.client("HEAD", "/symbol/folders/1/symbols", "").want(200)
			is.Equal(store.reads.Load()-before, pages) // of 15
			is.Equal(head.header.Get("Content-Length") != "", limit > 0)
			is.Equal(head.header.Get("Content-Type"), "application/json")
			is.Equal(head.header.Get("Cache-Control"), "private, no-cache")
			h.send("GET", "/symbol/folders/1/symbols", "", "x-api-key", h.rawKey, "If-None-Match", head.header.Get("ETag")).want(304)
		}
	}
}

// TestSymbolList_LongSymbol reads a long list of a single page, which is consistent.
func TestSymbolList_LongSymbol(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, smallCache)
	createFolder(t, otherProcess, "A", 1, 5<<20)
	first := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(store.reads.Load(), int64(1))
	for range 2 {
		again := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
		is.Equal(string(again.body), string(first.body))
		is.Equal(again.header.Get("ETag"), h.tag("/symbol/folders/1/symbols"))
		is.Equal(again.header.Get("Content-Length"), fmt.Sprint(len(first.body)))
	}
	is.True(store.reads.Load() > 2) // not cached
}

// TestSymbolList_ConcurrentMissesOfLongList: requests share the encoded part and
// stream the rest.
func TestSymbolList_ConcurrentMissesOfLongList(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = -1 })
	createFolder(t, otherProcess, "A", 30, 200_000)
	blocked := make(chan struct{})
	store.onRead(func(int64) error { <-blocked; return nil })
	var wg sync.WaitGroup
	responses := make([]response, 4)
	for i := range responses {
		wg.Go(func() { responses[i] = h.client("GET", "/symbol/folders/1/symbols", "").want(200) })
	}
	for store.reads.Load() == 0 {
		h.client("GET", "/symbol/folders", "").want(200)
	}
	close(blocked)
	wg.Wait()
	tags := make(map[string]bool)
	for _, response := range responses {
		is.Equal(ids(response), upTo(30))
		tags[response.header.Get("ETag")] = true
	}
	is.Equal(len(tags), len(responses))
}

// TestSymbolList_TagHasTheEndOfAPage has processes that end a page elsewhere.
func TestSymbolList_TagHasTheEndOfAPage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Symbols()
	createFolder(t, must(symbols.NewService(store, nil))(t), "A", 40, 200_000)
	links := make(map[string]string) // by tag
	for _, size := range []int64{64 << 20, -1, 64 << 20} {
		h := serve(t, func(o *httpapi.Options) {
			o.Symbols, o.Limits.ListCache = must(symbols.NewService(store, nil))(t), size
		})
		page := h.client("GET", "/symbol/folders/1/symbols?limit=40", "").want(200)
		tag := page.header.Get("ETag")
		link, known := links[tag]
		is.True(!known || link == page.header.Get("Link"))
		links[tag] = page.header.Get("Link")
		h.send("GET", "/symbol/folders/1/symbols?limit=40", "", "x-api-key", h.rawKey, "If-None-Match", tag).want(304)
	}
	is.Equal(len(links), 2)
}
