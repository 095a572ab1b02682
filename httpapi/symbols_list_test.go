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

// hookedStore counts reads of folder lists, and of pages of symbols. It calls a hook
// before each page.
type hookedStore struct {
	symbols.Store
	folderReads, reads atomic.Int64
	hook               atomic.Pointer[func(after int64) error]
}

func (s *hookedStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	s.reads.Add(1)
	if hook := s.hook.Load(); hook != nil {
		if err := (*hook)(r.After); err != nil {
			return symbols.Page{}, err
		}
	}
	return s.Store.ListSymbols(ctx, folderID, r, size, details)
}

func (s *hookedStore) ListFolders(ctx context.Context, r symbols.Range) (symbols.FolderPage, error) {
	s.folderReads.Add(1)
	return s.Store.ListFolders(ctx, r)
}

func (s *hookedStore) onRead(hook func(after int64) error) { s.hook.Store(&hook) }

// failAfter makes pages behind a symbol fail.
func (s *hookedStore) failAfter(id int64) {
	s.onRead(func(after int64) error {
		if after > id {
			return errors.New("no connection")
		}
		return nil
	})
}

// serveSymbols serves a hookedStore with pages of pageSize bytes. The Service changes
// the store like another process.
func serveSymbols(t *testing.T, pageSize int, change ...func(*httpapi.Options)) (*harness, *hookedStore, *symbols.Service) {
	t.Helper()
	store := &hookedStore{Store: memory.New().Symbols()}
	h := serve(t, append(change, func(options *httpapi.Options) {
		options.Symbols = must(symbols.NewService(store, &symbols.Options{PageSize: pageSize}))(t)
	})...)
	return h, store, must(symbols.NewService(store.Store, nil))(t)
}

// createFolder creates a folder with count symbols of size bytes.
func createFolder(t *testing.T, service *symbols.Service, name string, count, size int) symbols.Folder {
	t.Helper()
	folder := must(service.CreateFolder(t.Context(), name))(t)
	for i := range count {
		data := strings.Repeat(string(rune('a'+i%26)), size)
		must(service.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: fmt.Sprint("symbol ", i), Type: "text/plain", Data: data}))(t)
	}
	return folder
}

func TestSymbolList_ReadOncePerVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0)
	folder := createFolder(t, otherProcess, "A", 3, 100)
	first := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(store.reads.Load(), int64(1))
	for range 5 {
		again := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
		is.Equal(string(again.body), string(first.body))
		is.Equal(again.header.Get("ETag"), first.header.Get("ETag"))
		is.Equal(again.header.Get("Content-Length"), fmt.Sprint(len(again.body)))
	}
	h.send("GET", "/symbol/folders/1/symbols", "", "x-api-key", h.rawKey, "If-None-Match", first.header.Get("ETag")).want(304)
	is.Equal(store.reads.Load(), int64(1)) // no data is read

	must(otherProcess.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "late", Type: "text/plain", Data: "x"}))(t)
	second := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.True(strings.Contains(string(second.body), "late")) // immediately
	is.True(second.header.Get("ETag") != first.header.Get("ETag"))
	is.Equal(store.reads.Load(), int64(2))
	is.NoErr(otherProcess.DeleteFolder(t.Context(), folder.ID, symbols.Any, 0))
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(404, "not_found")
}

func TestFolderList_ReadOncePerVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0)
	for _, name := range []string{"A", "B"} {
		createFolder(t, otherProcess, name, 1, 10)
	}
	for _, path := range []string{"/symbol/folders", "/symbol/folders?limit=1"} {
		before := store.folderReads.Load()
		first := h.client("GET", path, "").want(200)
		for range 3 {
			again := h.client("GET", path, "").want(200)
			is.Equal(string(again.body), string(first.body))
			is.Equal(again.header.Get("Link"), first.header.Get("Link"))
		}
		is.Equal(store.folderReads.Load()-before, int64(1))
		must(otherProcess.UpdateFolder(t.Context(), 1, new("new name of "+path), symbols.Any))(t)
		is.True(strings.Contains(string(h.client("GET", path, "").want(200).body), "new name of "+path)) // immediately
	}
}

func TestSymbolList_CacheIsLimited(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = 50_000 })
	for i := range 4 {
		createFolder(t, otherProcess, fmt.Sprint("folder ", i), 2, 4000)
	}
	list := func(folder int) { h.client("GET", fmt.Sprintf("/symbol/folders/%d/symbols", folder), "").want(200) }
	for folder := 1; folder <= 3; folder++ {
		list(folder)
	}
	list(1)
	is.Equal(store.reads.Load(), int64(3)) // room for three lists of 8 KB
	list(4)                                // evicts folder 2
	list(1)
	list(3)
	is.Equal(store.reads.Load(), int64(4))
	list(2)
	is.Equal(store.reads.Load(), int64(5))

	h, store, otherProcess = serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = -1 })
	createFolder(t, otherProcess, "A", 2, 100)
	list(1)
	list(1)
	is.Equal(store.reads.Load(), int64(2)) // cache off
}

// TestSymbolList_ConcurrentMissesShareRead sends a hundred requests while a read
// blocks.
func TestSymbolList_ConcurrentMissesShareRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.StoreTimeout = testTimeout })
	createFolder(t, otherProcess, "A", 3, 100)
	blocked := make(chan struct{})
	store.onRead(func(int64) error { <-blocked; return nil })
	var wg sync.WaitGroup
	bodies := make([]string, 100)
	for i := range bodies {
		wg.Go(func() { bodies[i] = string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body) })
	}
	for store.reads.Load() == 0 {
		h.client("GET", "/symbol/folders", "").want(200)
	}
	close(blocked)
	wg.Wait()
	for _, body := range bodies {
		is.Equal(body, bodies[0])
	}
	is.Equal(store.reads.Load(), int64(1))
}

func TestSymbolList_FailureIsNotCached(t *testing.T) {
	t.Parallel()
	h, store, otherProcess := serveSymbols(t, 0)
	createFolder(t, otherProcess, "A", 3, 100)
	store.onRead(func(int64) error { return errors.New("no connection") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(503, "unavailable")
	store.onRead(func(int64) error { panic("a bug in a driver") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(500, "internal")
	store.onRead(func(int64) error { return nil })
	h.client("GET", "/symbol/folders/1/symbols", "").want(200)
}

// TestSymbolList_FailureIsNoStore: a failure of a long list must not be cached by
// clients.
func TestSymbolList_FailureIsNoStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Limits.ListCache = -1 })
	createFolder(t, otherProcess, "A", 30, 200_000)
	h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	store.onRead(func(int64) error { return errors.New("no connection") })
	response := h.client("GET", "/symbol/folders/1/symbols", "").wantError(503, "unavailable")
	is.Equal(response.header.Get("Cache-Control"), "no-store")
	is.Equal(response.header.Get("ETag"), "")
}

// TestSymbolList_IsConsistent changes a folder between reads of its pages.
func TestSymbolList_IsConsistent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 1)
	createFolder(t, otherProcess, "A", 5, 100)
	changes := 0
	change := func() error {
		changes++
		for id := int64(1); id <= 5; id++ { // all symbols have equal data
			if _, err := otherProcess.UpdateSymbol(t.Context(), id, symbols.SymbolFields{Data: new(fmt.Sprint(changes))}, symbols.Any); err != nil {
				return err
			}
		}
		return nil
	}
	is.NoErr(change())
	same := func(response response) bool {
		for _, symbol := range response.array() {
			if symbol.(map[string]any)["data"] != response.array()[0].(map[string]any)["data"] {
				return false
			}
		}
		return true
	}
	store.onRead(func(after int64) error {
		if after == 3 && changes < 3 {
			return change()
		}
		return nil
	})
	response := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(changes, 3) // two attempts were inconsistent
	is.True(same(response))
	is.Equal(response.header.Get("ETag"), h.tag("/symbol/folders/1/symbols"))

	store.onRead(func(after int64) error { // in each attempt
		if after > 0 {
			return change()
		}
		return nil
	})
	is.NoErr(change())
	mixed := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(len(mixed.array()), 5)
	is.True(!same(mixed)) // so its ETag must be unique
	store.onRead(func(int64) error { return nil })
	h.send("GET", "/symbol/folders/1/symbols", "", "x-api-key", h.rawKey, "If-None-Match", mixed.header.Get("ETag")).want(200)
	consistent := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.True(same(consistent))
	is.True(mixed.header.Get("ETag") != consistent.header.Get("ETag"))
}

// TestSymbolList_LastSymbolDeleted deletes the last symbol before its page is read.
func TestSymbolList_LastSymbolDeleted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 1)
	folder := createFolder(t, otherProcess, "A", 3, 100)
	const path = "/symbol/folders/1/symbols"
	var end symbols.Symbol
	attempts := 0
	store.onRead(func(after int64) (err error) {
		switch {
		case after == 0:
			attempts++
			end, err = otherProcess.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "end", Type: "text/plain", Data: "x"})
		case after == 3 && end.ID > 0:
			err = otherProcess.DeleteSymbol(t.Context(), end.ID, symbols.Any, 0)
			end.ID = 0
		}
		return err
	})
	mixed := h.client("GET", path, "").want(200)
	is.True(attempts > 1)
	is.Equal(ids(mixed), upTo(3))
	store.onRead(func(int64) error { return nil })
	is.True(mixed.header.Get("ETag") != h.tag(path))
}
