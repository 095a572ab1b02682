package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	first := h.get(listPath).want(200)
	is.Equal(store.reads.Load(), int64(1))
	for range 5 {
		h.get(listPath).wantBody(200, string(first.body)).
			wantHeaders("ETag", first.header.Get("ETag"), "Content-Length", fmt.Sprint(len(first.body)))
	}
	h.get(listPath, "If-None-Match", first.header.Get("ETag")).want(304)
	is.Equal(store.reads.Load(), int64(1)) // no data is read

	must(otherProcess.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "late", Type: "text/plain", Data: "x"}))(t)
	second := h.get(listPath).want(200)
	is.True(strings.Contains(string(second.body), "late")) // immediately
	is.True(second.header.Get("ETag") != first.header.Get("ETag"))
	is.Equal(store.reads.Load(), int64(2))
	is.NoErr(otherProcess.DeleteFolder(t.Context(), folder.ID, symbols.Any, 0))
	h.get(listPath).wantError(404, "not_found")
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
			again := h.client("GET", path, "").wantBody(200, string(first.body))
			again.wantHeaders("Link", first.header.Get("Link"))
		}
		is.Equal(store.folderReads.Load()-before, int64(1))
		must(otherProcess.UpdateFolder(t.Context(), 1, new("new name of "+path), symbols.Any))(t)
		is.True(strings.Contains(string(h.client("GET", path, "").want(200).body), "new name of "+path)) // immediately
	}
}

func TestSymbolList_ConcurrentMissesShareRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, storeTimeout(testTimeout))
	createFolder(t, otherProcess, "A", 3, 100)
	responses := h.listAtOnce(store, 100)
	for _, response := range responses {
		is.Equal(string(response.body), string(responses[0].body))
	}
	is.Equal(store.reads.Load(), int64(1))
}

// listAtOnce reads the list of folder 1 several times while the first read of the store blocks.
func (h *harness) listAtOnce(store *hookedStore, times int) []response {
	blocked := make(chan struct{})
	store.onRead(func(int64) error { <-blocked; return nil })
	var wg sync.WaitGroup
	responses := make([]response, times)
	for i := range responses {
		wg.Go(func() { responses[i] = h.get(listPath).want(200) })
	}
	for store.reads.Load() == 0 {
		h.client("GET", "/symbol/folders", "").want(200)
	}
	close(blocked)
	wg.Wait()
	return responses
}

func TestSymbolList_FailureIsNotCached(t *testing.T) {
	t.Parallel()
	h, store, otherProcess := serveSymbols(t, 0)
	createFolder(t, otherProcess, "A", 3, 100)
	store.onRead(func(int64) error { return errors.New("no connection") })
	h.get(listPath).wantError(503, "unavailable")
	store.onRead(func(int64) error { panic("a bug in a driver") })
	h.get(listPath).wantError(500, "internal")
	store.onRead(func(int64) error { return nil })
	h.get(listPath).want(200)
}

// TestSymbolList_FailureIsNoStore: a failure of a long list must not be cached by
// clients.
func TestSymbolList_FailureIsNoStore(t *testing.T) {
	t.Parallel()
	h, store, _ := serveLongList(t, noCache)
	h.get(listPath).want(200)
	store.onRead(func(int64) error { return errors.New("no connection") })
	h.get(listPath).wantError(503, "unavailable").wantHeaders("Cache-Control", "no-store", "ETag", "")
}

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
	response := h.get(listPath).want(200)
	is.Equal(changes, 3) // two attempts were inconsistent
	is.True(same(response))
	response.wantHeaders("ETag", h.tag(listPath))

	store.onRead(func(after int64) error { // in each attempt
		if after > 0 {
			return change()
		}
		return nil
	})
	is.NoErr(change())
	mixed := h.get(listPath).want(200)
	is.Equal(len(mixed.array()), 5)
	is.True(!same(mixed)) // so its ETag must be unique
	store.onRead(func(int64) error { return nil })
	h.get(listPath, "If-None-Match", mixed.header.Get("ETag")).want(200)
	consistent := h.get(listPath).want(200)
	is.True(same(consistent))
	is.True(mixed.header.Get("ETag") != consistent.header.Get("ETag"))
}

func TestSymbolList_LastSymbolDeleted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 1)
	folder := createFolder(t, otherProcess, "A", 3, 100)
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
	mixed := h.get(listPath).want(200)
	is.True(attempts > 1)
	is.Equal(ids(mixed), upTo(3))
	store.onRead(func(int64) error { return nil })
	is.True(mixed.header.Get("ETag") != h.tag(listPath))
}

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

// noCache caches no list.
func noCache(options *httpapi.Options) { options.Limits.ListCache = -1 }

// serveLongList is serveSymbols with a folder of 30 symbols, whose list has 6 MB.
func serveLongList(t *testing.T, change ...func(*httpapi.Options)) (*harness, *hookedStore, *symbols.Service) {
	t.Helper()
	h, store, otherProcess := serveSymbols(t, 0, change...)
	createFolder(t, otherProcess, "A", 30, 200_000)
	return h, store, otherProcess
}

func TestSymbolList_LongListIsCached(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, _ := serveLongList(t)
	for _, encoding := range []string{"identity", "gzip"} {
		want, before := h.get(listPath, "Accept-Encoding", encoding).want(200), store.reads.Load()
		h.get(listPath, "Accept-Encoding", encoding).wantBody(200, string(want.body)).
			wantHeaders("ETag", want.header.Get("ETag"))
		is.Equal(store.reads.Load(), before)
		is.True(want.header.Get("Content-Length") != "")
	}
}

// getChanging reads a list of 30 symbols, of which another process changes one meanwhile. The
// ETag matches no later list.
func getChanging(h *harness, store *hookedStore, other *symbols.Service) response {
	h.t.Helper()
	store.onRead(func(after int64) error {
		if after == 26 {
			_, err := other.UpdateSymbol(h.t.Context(), 29, symbols.SymbolFields{Name: new("new")}, symbols.Any)
			return err
		}
		return nil
	})
	mixed := h.get(listPath).want(200)
	store.onRead(func(int64) error { return nil })
	h.get(listPath, "If-None-Match", mixed.header.Get("ETag")).want(200)
	return mixed
}

func TestSymbolList_LongListIsStreamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveLongList(t, smallCache)
	response := h.get(listPath).want(200).wantHeaders("Content-Length", "")
	is.Equal(ids(response), upTo(30))
	tag := response.header.Get("ETag")
	is.True(strings.HasPrefix(tag, `"`))
	h.get(listPath, "If-None-Match", tag).want(304)

	// A list that includes a concurrent change has another ETag.
	is.True(getChanging(h, store, otherProcess).header.Get("ETag") != tag)

	// A failure of the store aborts the response.
	store.failAfter(25)
	h.wantTruncated("GET", listPath, "")
}

// TestSymbolList_PageEndsEarly: a page does not have its complete limit of records if
// they are long.
func TestSymbolList_PageEndsEarly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, _, _ := serveLongList(t, smallCache)
	var got []int64
	pages := 0
	for next := "?limit=28"; next != ""; pages++ {
		page := h.get(listPath + next).want(200)
		is.True(page.header.Get("Content-Length") != "")
		h.get(listPath+next).want(200).wantHeaders("ETag", page.header.Get("ETag"))
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
	h, store, otherProcess := serveLongList(t, noCache)
	tags := make(map[string]bool)
	for range 2 {
		before := store.reads.Load()
		response := h.get(listPath).want(200)
		is.Equal(ids(response), upTo(30))
		is.Equal(store.reads.Load()-before, int64(15))
		tags[response.header.Get("ETag")] = true
		h.get(listPath, "If-None-Match", response.header.Get("ETag")).want(304)
	}
	is.Equal(len(tags), 2)

	// A change between the encoded part and the streamed rest.
	mixed := getChanging(h, store, otherProcess)
	is.Equal(ids(mixed), upTo(30))
	is.True(strings.Contains(string(mixed.body), `"name":"new"`))
}

func TestSymbolList_HeadOfLongList(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for limit, want := range map[int64][]int64{64 << 20: {15, 0, 0}, -1: {11, 11, 11}} {
		h, store, _ := serveLongList(t, func(options *httpapi.Options) { options.Limits.ListCache = limit })
		for _, pages := range want {
			before := store.reads.Load()
			head := h.client("HEAD", listPath, "").want(200)
			is.Equal(store.reads.Load()-before, pages) // of 15
			is.Equal(head.header.Get("Content-Length") != "", limit > 0)
			head.wantHeaders("Content-Type", "application/json", "Cache-Control", "private, no-cache")
			h.get(listPath, "If-None-Match", head.header.Get("ETag")).want(304)
		}
	}
}

// TestSymbolList_LongSymbol reads a long list of a single page, which is consistent.
func TestSymbolList_LongSymbol(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, otherProcess := serveSymbols(t, 0, smallCache)
	createFolder(t, otherProcess, "A", 1, 5<<20)
	first := h.get(listPath).want(200)
	is.Equal(store.reads.Load(), int64(1))
	for range 2 {
		h.get(listPath).wantBody(200, string(first.body)).
			wantHeaders("ETag", h.tag(listPath), "Content-Length", fmt.Sprint(len(first.body)))
	}
	is.True(store.reads.Load() > 2) // not cached
}

// TestSymbolList_ConcurrentMissesOfLongList: requests share the encoded part and
// stream the rest.
func TestSymbolList_ConcurrentMissesOfLongList(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, store, _ := serveLongList(t, noCache)
	tags := make(map[string]bool)
	responses := h.listAtOnce(store, 4)
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
		h := serve(t, withSymbols(store), func(o *httpapi.Options) { o.Limits.ListCache = size })
		page := h.get(listPath + "?limit=40").want(200)
		tag := page.header.Get("ETag")
		link, known := links[tag]
		is.True(!known || link == page.header.Get("Link"))
		links[tag] = page.header.Get("Link")
		h.get(listPath+"?limit=40", "If-None-Match", tag).want(304)
	}
	is.Equal(len(links), 2)
}

// TestSymbolList_LongListMemory reads a list of symbols of 4 KB from SQLite in steps.
// Between them it measures the growth of the heap, and checks that no database
// connection is in use.
func TestSymbolList_LongListMemory(t *testing.T) {
	is := is.New(t)
	const count = 3000
	pool, db := openSQLite(t, filepath.Join(t.TempDir(), "huge.db"))
	service := must(symbols.NewService(db.Symbols(), nil))(t)
	folder := must(service.CreateFolder(t.Context(), "A"))(t)
	list := make([]symbols.Symbol, 500)
	for i := range list {
		list[i] = symbols.Symbol{Name: fmt.Sprint(i), Type: "text/plain", Data: strings.Repeat("x", 4<<10)}
	}
	for range count / len(list) {
		must(db.Symbols().InsertSymbols(t.Context(), folder.ID, list))(t)
	}
	server := httptest.NewServer(httpapi.Handler(&httpapi.Options{Symbols: service, Limits: httpapi.Limits{ListCache: 16 << 20}, DangerouslySkipClientKeys: true}))
	defer server.Close()

	idle, heap := usedHeap(), int64(0)
	response := must(http.Get(server.URL + "/symbol/folders/1/symbols"))(t)
	defer response.Body.Close()
	var read int64
	for {
		n, err := io.CopyN(io.Discard, response.Body, count*(4<<10)/16)
		read += n
		heap = max(heap, usedHeap()-idle)
		if err == io.EOF {
			break
		}
		is.NoErr(err)
		eventually(t, func() bool { return pool.Stats().InUse == 0 }) // while the client is slow
	}
	is.True(read >= count*(4<<10))
	is.True(heap <= 8<<20)
}
