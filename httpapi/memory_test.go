package httpapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// startBody sends a request of which only part of the body arrives.
func (h *harness) startBody(path, key string, size int, part string) net.Conn {
	h.t.Helper()
	conn := h.dial()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, size, part)
	is.New(h.t).NoErr(err)
	return conn
}

// blankZip returns a small zip of SVG files, each of which has size bytes.
func blankZip(t *testing.T, files, size int) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := range files {
		w := must(z.Create(fmt.Sprint(i, ".svg")))(t)
		fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--%s--></svg>`, strings.Repeat(" ", size-80))
	}
	is.New(t).NoErr(z.Close())
	return out.String()
}

// eventually waits until a condition holds.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition never holds")
		}
	}
}

func TestMemoryBudget_UnfinishedBodiesHoldTheirShare(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.IdleTimeout = 4<<20, 500*time.Millisecond, time.Second
	})
	large := fmt.Sprintf(`{"name":"a","type":"text/plain","data":%q}`, strings.Repeat("a", 512<<10))

	// Each has 3 MiB, all there is for large requests: three times a buffer of 1 MiB.
	unfinished := []net.Conn{
		h.startBody("/symbol/folders/1/symbols", h.keyOf(""), 6<<20, strings.Repeat(" ", 768<<10)),
		h.startBody("/symbol/folders/1/import", h.keyOf(""), 6<<20, strings.Repeat(" ", 768<<10)),
	}
	var rejected response
	eventually(t, func() bool {
		rejected = h.client("POST", "/symbol/folders/1/symbols", large)
		return rejected.status == 503
	})
	rejected.wantError(503, "unavailable")
	rejected.wantHeaders("Retry-After", "1")
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"a","type":"text/plain","data":"small"}`).want(201)
	for _, conn := range unfinished {
		is.New(t).NoErr(conn.Close())
	}
	eventually(t, func() bool { return h.client("POST", "/symbol/folders/1/symbols", large).status == 201 })
}

// TestMemoryBudget_LargeBodiesOfOneKeyEnd sends two bodies at the same time, for which
// there is not enough memory.
func TestMemoryBudget_LargeBodiesOfOneKeyEnd(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) { o.Limits.Memory = 4 << 20 })
	body := fmt.Sprintf(`{"name":"a","type":"text/plain","data":%q}`, strings.Repeat("a", 2<<20))
	half := len(body) / 2
	first := h.startBody("/symbol/folders/1/symbols", h.rawKey, len(body), body[:half])
	second := h.startBody("/symbol/folders/1/symbols", h.rawKey, len(body), body[:half])
	done := make(chan error)
	go func() {
		_, err := io.WriteString(second, body[half:])
		done <- err
	}()
	must(io.WriteString(first, body[half:]))(t)
	receive(t, first, 201)
	is.New(t).NoErr(<-done)
	receive(t, second, 201)
}

// TestMemoryBudget_SmallRequestOfTheSameKey does not wait for the large one that has half of
// the memory.
func TestMemoryBudget_SmallRequestOfTheSameKey(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) { o.Limits.Memory, o.Limits.IdleTimeout = 4<<20, 5*time.Second })
	large := h.startBody("/symbol/folders/1/import", h.rawKey, 1<<20-1, strings.Repeat(" ", 300<<10)) // twice a buffer of 1 MiB
	defer large.Close()
	body := fmt.Sprintf(`{"name":"a","type":"text/plain","data":%q}`, strings.Repeat("a", 8<<10))
	for range 20 { // the large one grows meanwhile
		h.client("POST", "/symbol/folders/1/symbols", body).want(201)
		time.Sleep(10 * time.Millisecond)
	}
}

func TestMemoryBudget_CountsImportsBeforeTheyExpand(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.IdleTimeout = 4<<20, 500*time.Millisecond, time.Second
		o.Limits.ImportContents.Ratio, o.Limits.ImportContents.Total = 2000, 8<<20
	})
	send := func(archive string) response {
		return h.send("POST", "/symbol/folders/1/import?dryRun=true", archive, "x-api-key", h.rawKey, "Content-Type", "application/zip")
	}
	bomb := blankZip(t, 3, 768<<10)
	send(bomb).want(200)
	conn := h.startBody("/symbol/folders/1/symbols", h.keyOf(""), 6<<20, strings.Repeat(" ", 768<<10))
	var rejected response
	eventually(t, func() bool { rejected = send(bomb); return rejected.status == 503 })
	rejected.wantError(503, "unavailable")
	send(blankZip(t, 1, 10<<10)).want(200)
	is.New(t).NoErr(conn.Close())
	eventually(t, func() bool { return send(bomb).status == 200 })
}

// TestMemoryBudget_CountsBodiesThatSlowClientsReceive has clients that read nothing of
// long symbols.
func TestMemoryBudget_CountsBodiesThatSlowClientsReceive(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.Memory, o.Limits.StoreTimeout = 12<<20, 500*time.Millisecond })
	createFolder(t, h.options.Symbols, "A", 2, 6<<20)
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"a","type":"text/plain","data":"small"}`).want(201)
	for _, request := range []string{
		"GET /symbol/symbols/1 HTTP/1.1\r\nContent-Length: 0",
		"PATCH /symbol/symbols/1 HTTP/1.1\r\nContent-Length: 2",
		"GET /symbol/folders/1/symbols HTTP/1.1\r\nContent-Length: 0",
	} {
		stalled := h.dial()
		is.NoErr(stalled.SetReadBuffer(4 << 10))
		fmt.Fprintf(stalled, "%s\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n{}", request, h.keyOf(""))
		receive(t, stalled, 200)
		h.get("/symbol/symbols/2").wantError(503, "unavailable").wantHeaders("Retry-After", "1", "Etag", "")
		h.client("GET", "/symbol/symbols/3", "").want(200)
		is.NoErr(stalled.Close())
		eventually(t, func() bool { return h.client("GET", "/symbol/symbols/2", "").status == 200 })
	}
	h.get("/symbol/symbols/2", "Accept-Encoding", "gzip").want(200) // more than half of the memory
}

func TestMemoryBudget_KeyIsRevokedDuringWait(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.Memory, o.Limits.StoreTimeout = 4<<20, time.Minute })
	createFolder(t, h.options.Symbols, "A", 1, 128<<10)
	unfinished := h.startBody("/symbol/folders/1/symbols", h.keyOf(""), 6<<20, strings.Repeat(" ", 768<<10))
	time.Sleep(2 * time.Second) // it has all memory for large requests
	done := make(chan response)
	for _, method := range []string{"PATCH", "GET"} {
		go func() { done <- h.client(method, "/symbol/symbols/1", "") }()
	}
	time.Sleep(1200 * time.Millisecond)
	is.NoErr(h.options.Keys.Delete(t.Context(), 1))
	is.NoErr(unfinished.Close())
	for range 2 {
		is.Equal((<-done).status, 401)
	}
}

// TestMemoryBudget_ListsDoNotExceedIt has a list that needs more than what another request
// leaves. A slow client would exceed the budget for long, so the end of the list is read
// while it is written.
func TestMemoryBudget_ListsDoNotExceedIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.Memory = 4 << 20 })
	createFolder(t, h.options.Symbols, "A", 40, 64<<10)
	length := func() string {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"a","type":"text/plain","data":"a"}`).want(201) // so that no list is cached
		return h.client("GET", "/symbol/folders/1/symbols", "").want(200).header.Get("Content-Length")
	}
	is.True(length() != "")
	unfinished := h.startBody("/symbol/folders/1/symbols", h.keyOf(""), 500<<10, strings.Repeat(" ", 400<<10))
	eventually(t, func() bool { return length() == "" })
	is.NoErr(unfinished.Close())
	eventually(t, func() bool { return length() != "" })
}

func TestMemoryBudget_ForgetsTheBodyOfADownload(t *testing.T) {
	t.Parallel()
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout = 4<<20, 500*time.Millisecond
	})
	h.folder("a")
	body := batchBody("s") + strings.Repeat(" ", 900<<10)
	stalled := h.startBody("/viewer/exports/download-batch", h.keyOf(""), len(body), body)
	receive(t, stalled, 200)
	h.client("POST", "/symbol/folders/1/symbols", fmt.Sprintf(`{"name":"a","type":"text/plain","data":%q}`, strings.Repeat("a", 512<<10))).want(201)
}

func TestMemoryBudget_ForgetsTheBodyThatAuthorizeRead(t *testing.T) {
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) {
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			_, err := httpapi.RequestResources(r)
			return err
		}
	})
	before, body := usedHeap(), batchBody("s")+strings.Repeat(" ", 4<<20)
	for range 8 {
		receive(t, h.startBody("/viewer/exports/download-batch", h.keyOf(""), len(body), body), 200)
	}
	is.New(t).True(usedHeap()-before < 20<<20) // 40 MiB with the bodies
}

// TestMemoryBudget_ForgetsTheBodyOfALink has clients that make links to a slow file.
func TestMemoryBudget_ForgetsTheBodyOfALink(t *testing.T) {
	t.Parallel()
	opened, ended := make(chan bool), new(atomic.Bool)
	h := serveExport(t, openerFunc(func(ctx context.Context, _ *url.URL) (*exports.File, error) {
		opened <- true
		<-ctx.Done()
		ended.Store(true)
		return nil, ctx.Err()
	}), func(o *httpapi.Options) { o.Limits.Memory = 4 << 20 })
	long := func(source string) string { return batchBody(source) + strings.Repeat(" ", 900<<10) }
	for range 2 {
		h.startBody("/viewer/exports/links", h.keyOf(""), len(long("s")), long("s"))
		<-opened
	}
	h.client("POST", "/viewer/exports/links", long("unknown")).wantError(404, "not_found")
	is.New(t).True(!ended.Load())
}

// TestMemoryBudget_CountsTheFoldersOfAZip has clients that read nothing of zips with deep
// folders. One of them may exceed the memory.
func TestMemoryBudget_CountsTheFoldersOfAZip(t *testing.T) {
	t.Parallel()
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) { o.Limits.Memory = 4 << 20 })
	const path = "/viewer/exports/download-batch"
	item := `{"sourceFileUrl":"s","path":"` + strings.Repeat("a/", 500) + `"}`
	body := `{"items":[` + strings.Repeat(item+",", 40) + item + `]}`
	for range 2 {
		receive(t, h.startBody(path, h.keyOf(""), len(body), body), 200)
	}
	h.client("POST", path, body).wantError(503, "unavailable")
}

// findStore counts calls of Find, which wait until it is closed.
type findStore struct {
	exports.Store
	calls  atomic.Int64
	closed chan struct{}
}

func (s *findStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	s.calls.Add(1)
	<-s.closed
	return s.Store.Find(ctx, tenant, sources...)
}

func TestTurns_ClientLooksUpOneLargeBatchAtATime(t *testing.T) {
	t.Parallel()
	store := &findStore{Store: memory.New().Exports(), closed: make(chan struct{})}
	h := serve(t, func(o *httpapi.Options) { o.Exports = must(exports.NewService(store, nil))(t) })
	other := h.keyOf("")
	large, small := batchBody(strings.Split(strings.Repeat("1", 101), "")...), batchBody("1")
	var all sync.WaitGroup
	send := func(key, body string) {
		all.Go(func() {
			h.send("POST", "/viewer/exports/download-batch", body, "x-api-key", key).wantError(404, "not_found")
		})
	}
	for range 3 {
		send(h.rawKey, large)
	}
	eventually(t, func() bool { return store.calls.Load() == 1 })
	send(other, large)
	send(h.rawKey, small)
	eventually(t, func() bool { return store.calls.Load() == 3 })
	close(store.closed)
	all.Wait()
	is.New(t).True(store.calls.Load() >= 5)
}

// exhaust takes all memory for large requests until the test ends.
func exhaust(h *harness) {
	for _, path := range []string{"/symbol/folders/1/symbols", "/symbol/folders/1/import"} { // 3 MiB each: three times a buffer of 1 MiB
		conn := h.startBody(path, h.keyOf(""), 6<<20, strings.Repeat(" ", 768<<10))
		h.t.Cleanup(func() { conn.Close() })
	}
	large := fmt.Sprintf(`{"name":"a","type":"text/plain","data":%q}`, strings.Repeat("a", 512<<10))
	eventually(h.t, func() bool { return h.client("POST", "/symbol/folders/1/symbols", large).status == 503 })
}

func TestMemoryBudget_CountsKeys(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) { o.Limits.Memory = 256 << 10 })
	for range 20 { // 4 KiB each
		h.keyOf("")
	}
	conn := h.startBody("/symbol/folders/1/symbols", h.rawKey, 1<<20, strings.Repeat(" ", 100<<10))
	defer conn.Close()
	eventually(t, func() bool { return h.admin("GET", "/admin/api-keys", "").status == 503 })
}

func TestMemoryBudget_CountsWhatIsRestored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.IdleTimeout = 4<<20, 200*time.Millisecond, time.Second
	})
	symbol := must(h.options.Symbols.CreateSymbol(t.Context(), 1, symbols.NewSymbol{Name: "a", Type: "a/b", Data: strings.Repeat("a", 1<<20)}))(t)
	is.NoErr(h.options.Symbols.DeleteSymbol(t.Context(), symbol.ID, symbols.Any, 0))
	exhaust(h)
	h.client("POST", "/symbol/trash/1/restore", "").wantError(503, "unavailable")
	is.Equal(len(h.client("GET", "/symbol/trash", "").want(200).array()), 1)
}

func TestMemoryBudget_CountsMetaOfSearch(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	store := symbolHook{memory.New().Symbols(), func(int64) error { reads.Add(1); return nil }}
	h := serveFolder(t, withSymbols(store), func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.IdleTimeout = 4<<20, 200*time.Millisecond, time.Second
	})
	list := slices.Repeat([]symbols.NewSymbol{{Name: "valve", Type: "a/b", Data: "x", Meta: `{"a":"` + strings.Repeat("a", 16000) + `"}`}}, 1000)
	must(h.options.Symbols.CreateSymbols(t.Context(), 1, list))(t)
	exhaust(h)
	reads.Store(0)
	h.client("GET", "/symbol/search?q=valve&limit=1000&fields=meta", "").wantError(503, "unavailable")
	is.New(t).True(reads.Load() < 100) // of 1,000
}

// TestMemoryBudget_CountsManifestOfExport has an export that may exceed the memory, and
// others that must not.
func TestMemoryBudget_CountsManifestOfExport(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.ListCache, o.Limits.StoreTimeout = 16<<20, -1, 200*time.Millisecond
	})
	list := make([]symbols.NewSymbol, 1000)
	for i := range list {
		var random strings.Builder // not compressible
		for range 600 {
			random.WriteString(rand.Text())
		}
		list[i] = symbols.NewSymbol{Name: "a", Type: "a/b", Data: "x", Meta: `{"a":"` + random.String() + `"}`}
	}
	must(h.options.Symbols.CreateSymbols(t.Context(), 1, list))(t)
	clients := []string{h.keyOf(""), h.keyOf(""), h.keyOf(""), h.keyOf("")}
	before, used := usedHeap(), int64(0)
	for _, key := range clients {
		conn := h.dial()
		t.Cleanup(func() { conn.Close() })
		is.New(t).NoErr(conn.SetReadBuffer(4 << 10))
		fmt.Fprintf(conn, "GET /symbol/folders/1/export HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", key)
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		used = max(used, usedHeap()-before)
	}
	is.New(t).True(used < 48<<20) // 78 MiB if each had its manifest
}
