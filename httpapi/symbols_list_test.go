package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// watchedStore is a shared store, so the handler caches lists. It counts the
// reads of symbols and calls a hook before each.
type watchedStore struct {
	symbols.Store
	reads  atomic.Int64
	before atomic.Pointer[func(after int64) error] // each read
}

func (s *watchedStore) ListSymbols(ctx context.Context, folderID, after int64, size int) (symbols.Page, error) {
	s.reads.Add(1)
	if before := s.before.Load(); before != nil {
		if err := (*before)(after); err != nil {
			return symbols.Page{}, err
		}
	}
	return s.Store.ListSymbols(ctx, folderID, after, size)
}

func (*watchedStore) Shared() bool { return true }

func (s *watchedStore) come(before func(after int64) error) { s.before.Store(&before) }

// startWatched serves a watched store with pages of so many bytes.
func startWatched(t *testing.T, pageSize int, change ...func(*httpapi.Options)) (*harness, *watchedStore, *symbols.Service) {
	t.Helper()
	store := &watchedStore{Store: memory.New().Symbols()}
	h := start(t, append(change, func(options *httpapi.Options) {
		options.Symbols = symbols.NewService(store, &symbols.Options{PageSize: pageSize})
	})...)
	return h, store, symbols.NewService(store.Store, nil) // as another process would have it
}

// fill makes a folder with symbols of a size.
func fill(t *testing.T, service *symbols.Service, name string, count, size int) symbols.Folder {
	t.Helper()
	folder, err := service.CreateFolder(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		data := strings.Repeat(string(rune('a'+i%26)), size)
		if _, err := service.CreateSymbol(t.Context(), folder.ID, fmt.Sprint("symbol ", i), "text/plain", data); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestSymbolList_isReadOnceForEachVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 0)
	folder := fill(t, elsewhere, "A", 3, 100)
	first := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(store.reads.Load(), int64(1))
	for range 5 {
		again := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
		is.Equal(string(again.body), string(first.body))
		is.Equal(again.header.Get("ETag"), first.header.Get("ETag"))
		is.Equal(again.header.Get("Content-Length"), fmt.Sprint(len(again.body)))
	}
	h.send("GET", "/symbol/folders/1/symbols", "", "x-api-key", h.raw, "If-None-Match", first.header.Get("ETag")).want(304)
	is.Equal(store.reads.Load(), int64(1)) // no data was read again

	_, err := elsewhere.CreateSymbol(t.Context(), folder.ID, "late", "text/plain", "x")
	is.NoErr(err)
	second := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.True(strings.Contains(string(second.body), "late")) // at once
	is.True(second.header.Get("ETag") != first.header.Get("ETag"))
	is.Equal(store.reads.Load(), int64(2))
	is.NoErr(elsewhere.DeleteFolder(t.Context(), folder.ID))
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(404, "not_found")
}

func TestSymbolList_cacheHasABound(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 0, func(options *httpapi.Options) { options.ListCache = 33_000 })
	for i := range 4 {
		fill(t, elsewhere, fmt.Sprint("folder ", i), 2, 4000)
	}
	list := func(folder int) { h.client("GET", fmt.Sprintf("/symbol/folders/%d/symbols", folder), "").want(200) }
	for folder := 1; folder <= 3; folder++ {
		list(folder)
	}
	list(1)
	is.Equal(store.reads.Load(), int64(3)) // three lists of 8 KB and a bit
	list(4)                                // takes the place of folder 2
	list(1)
	list(3)
	is.Equal(store.reads.Load(), int64(4))
	list(2)
	is.Equal(store.reads.Load(), int64(5))

	h, store, elsewhere = startWatched(t, 0, func(options *httpapi.Options) { options.ListCache = -1 })
	fill(t, elsewhere, "A", 2, 100)
	list(1)
	list(1)
	is.Equal(store.reads.Load(), int64(2)) // it is off
}

// TestSymbolList_concurrentMissesReadOnce lets a hundred clients ask for a list
// whose reading has been held up.
func TestSymbolList_concurrentMissesReadOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 0)
	fill(t, elsewhere, "A", 3, 100)
	held := make(chan struct{})
	store.come(func(int64) error { <-held; return nil })
	var wg sync.WaitGroup
	bodies := make([]string, 100)
	for i := range bodies {
		wg.Go(func() { bodies[i] = string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body) })
	}
	for store.reads.Load() == 0 {
		h.client("GET", "/symbol/folders", "").want(200)
	}
	close(held)
	wg.Wait()
	for _, body := range bodies {
		is.Equal(body, bodies[0])
	}
	is.Equal(store.reads.Load(), int64(1))
}

func TestSymbolList_failureOfOneIsNotKept(t *testing.T) {
	t.Parallel()
	h, store, elsewhere := startWatched(t, 0)
	fill(t, elsewhere, "A", 3, 100)
	store.come(func(int64) error { return errors.New("no connection") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(503, "unavailable")
	store.come(func(int64) error { panic("a bug in a driver") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(500, "internal")
	store.come(func(int64) error { return nil })
	h.client("GET", "/symbol/folders/1/symbols", "").want(200)
}

// TestSymbolList_failureIsNotForCaches lets a list fail that is known to be too
// long to be held.
func TestSymbolList_failureIsNotForCaches(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 0)
	fill(t, elsewhere, "A", 30, 200_000)
	h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	store.come(func(int64) error { return errors.New("no connection") })
	answer := h.client("GET", "/symbol/folders/1/symbols", "").wantError(503, "unavailable")
	is.Equal(answer.header.Get("Cache-Control"), "no-store")
	is.Equal(answer.header.Get("ETag"), "")
}

// TestSymbolList_isNeverTorn changes a folder while it is read, page by page.
func TestSymbolList_isNeverTorn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 1)
	fill(t, elsewhere, "A", 5, 100)
	changes := 0
	change := func() error {
		changes++
		for id := int64(1); id <= 5; id++ { // all symbols have the same data at any time
			if _, err := elsewhere.UpdateSymbol(t.Context(), id, symbols.SymbolFields{Data: new(fmt.Sprint(changes))}); err != nil {
				return err
			}
		}
		return nil
	}
	is.NoErr(change())
	same := func(answer answer) bool {
		for _, symbol := range answer.array() {
			if symbol.(map[string]any)["data"] != answer.array()[0].(map[string]any)["data"] {
				return false
			}
		}
		return true
	}
	store.come(func(after int64) error {
		if after == 3 && changes < 3 {
			return change()
		}
		return nil
	})
	answer := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(changes, 3) // two attempts were torn
	is.True(same(answer))
	is.Equal(answer.header.Get("ETag"), h.tag("/symbol/folders/1/symbols"))

	for _, last := range []int64{3, 4} { // before the last page, too
		store.come(func(after int64) error { // on and on
			if after == last {
				return change()
			}
			return nil
		})
		is.NoErr(change())
		torn := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
		is.Equal(len(torn.array()), 5)
		is.True(!same(torn)) // so it must have a tag that nothing else has
		store.come(func(int64) error { return nil })
		h.send("GET", "/symbol/folders/1/symbols", "", "x-api-key", h.raw, "If-None-Match", torn.header.Get("ETag")).want(200)
		whole := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
		is.True(same(whole))
		is.True(torn.header.Get("ETag") != whole.header.Get("ETag"))
	}
}

// TestSymbolList_endGoesAway deletes the last symbol each time the others have
// been read.
func TestSymbolList_endGoesAway(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, elsewhere := startWatched(t, 1)
	folder := fill(t, elsewhere, "A", 3, 100)
	const path = "/symbol/folders/1/symbols"
	var end symbols.Symbol
	tries := 0
	store.come(func(after int64) (err error) {
		switch {
		case after == 0:
			tries++
			end, err = elsewhere.CreateSymbol(t.Context(), folder.ID, "end", "text/plain", "x")
		case after == 3 && end.ID > 0:
			err = elsewhere.DeleteSymbol(t.Context(), end.ID)
			end.ID = 0
		}
		return err
	})
	torn := h.client("GET", path, "").want(200)
	is.True(tries > 1)
	is.Equal(ids(torn), upTo(3))
	store.come(func(int64) error { return nil })
	is.True(torn.header.Get("ETag") != h.tag(path))
}
