package httpapi_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"runtime"
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
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

const (
	routesMemory  = 16 << 20 // Limits.Memory
	routesClients = 24       // of each route, at the same time
)

// worstRequest takes as much memory as a request of its route can.
type worstRequest struct {
	path string // that of the route if empty
	body string
	zip  bool
}

// worstRequests returns the worst request of each route. Records are the largest that a
// client can create.
func worstRequests(h *harness, link string) map[string]worstRequest {
	text := strings.Repeat("\\u0001", 250)
	data := `{"name":"a","type":"text/plain","data":"` + strings.Repeat("a", 4<<20) + `"}`
	sources := make([]string, 500)
	for i := range sources {
		sources[i] = routesSource(i)
	}
	batch := batchBody(sources...)
	empty := `{"items":[` + strings.Repeat("{},", 1<<20) + `{}]}`
	worst := map[string]worstRequest{
		"POST /admin/api-keys":             {body: `{"scopes":[` + strings.Repeat(`"",`, 300_000) + `""]}`},
		"PATCH /admin/api-keys/{id}":       {body: `{"name":"` + strings.Repeat("a", 1000<<10) + `"}`},
		"PATCH /admin/api-keys":            {body: `{"isActive":true,"ids":[` + strings.Repeat("1,", 500_000) + `1]}`},
		"POST /admin/api-keys/delete":      {body: `{"ids":[` + strings.Repeat("1,", 500_000) + `1]}`},
		"POST /admin/api-keys/{id}/rotate": {body: strings.Repeat(" ", 1000<<10)},
		"GET /admin/api-keys/{id}/usage":   {path: "/admin/api-keys/1/usage?days=400"},
		"GET /admin/usage":                 {path: "/admin/usage?days=400"},
		"POST /admin/api-keys/import":      {body: `{"keys":[` + strings.Repeat("{},", 2<<20) + `{}]}`},
		"POST /viewer/key/revoke":          {body: `{"apiKeys":[` + strings.Repeat(`"",`, 300_000) + `""]}`},
		"POST /viewer/tokens":              {body: `{"sources":["` + strings.Repeat(`a","`, 250_000) + `"]}`},
		"DELETE /admin/api-keys/{id}":      {path: "/admin/api-keys/9999"},

		"POST /symbol/folders":              {body: `{"name":"` + strings.Repeat("a", 1000<<10) + `"}`},
		"PATCH /symbol/folders/{id}":        {body: `{"name":"` + text + `"}`},
		"DELETE /symbol/folders/{id}":       {path: "/symbol/folders/9999"},
		"POST /symbol/folders/{id}/symbols": {body: data},
		"POST /symbol/folders/{id}/import":  {path: "/symbol/folders/1/import?dryRun=true", body: blankZip(h.t, 3, 4<<20), zip: true},
		"GET /symbol/search":                {path: "/symbol/search?q=a&limit=1000&fields=id,name,type,data"},
		"PATCH /symbol/symbols/{id}":        {body: `{}`},
		"PATCH /symbol/symbols":             {body: `{"ids":[` + strings.Repeat("1,", 500_000) + `1]}`},
		"POST /symbol/symbols/delete":       {body: `{"ids":[` + strings.Repeat("1,", 500_000) + `1]}`},
		"POST /symbol/trash/{id}/restore":   {body: `{}`},
		"DELETE /symbol/trash/{id}":         {path: "/symbol/trash/9999"},
		"DELETE /symbol/symbols/{id}":       {path: "/symbol/symbols/9999"},

		"GET /admin/exports":                           {path: "/admin/exports?limit=1000"},
		"DELETE /admin/exports/{id}":                   {path: "/admin/exports/9999"},
		"POST /viewer/exports/download":                {body: exportBody(routesSource(0)) + strings.Repeat(" ", 900<<10)},
		"POST /viewer/exports/download-batch":          {path: "/viewer/exports/download-batch?responseType=urls", body: batch},
		"POST /viewer/exports/download-batch zip":      {path: "/viewer/exports/download-batch", body: batch},
		"POST /viewer/exports/download-batch empty":    {path: "/viewer/exports/download-batch", body: empty},
		"POST /viewer/exports/links":                   {body: empty},
		"POST /viewer/exports/links batch":             {path: "/viewer/exports/links", body: batch},
		"GET /viewer/exports/links/{token}/{fileName}": {path: link},
		"POST /viewer/exports/register":                {body: exportBody(strings.Repeat("a", 1000<<10))},
	}
	for _, plain := range []string{ // without a body or a query
		"GET /openapi.json", "GET /client.js", "GET /client.d.ts", "GET /admin/api-keys", "GET /admin/api-keys/{id}",
		"GET /viewer/key", "GET /symbol/folders", "GET /symbol/folders/{id}", "GET /symbol/folders/{id}/symbols",
		"GET /symbol/folders/{id}/export", "GET /symbol/symbols/{id}", "GET /symbol/symbols/{id}/image",
		"GET /symbol/changes", "GET /symbol/trash", "GET /admin/exports/{id}", "POST /admin/exports/{id}/check",
	} {
		worst[plain] = worstRequest{}
	}
	return worst
}

func routesSource(i int) string { return fmt.Sprint(i) + strings.Repeat("a", 300) }

// TestMemoryBudget_WorstRequestOfEachRoute sends the worst request of each route several
// times at once and reads no response. A route without one fails.
func TestMemoryBudget_WorstRequestOfEachRoute(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	if testing.Short() {
		t.Skip("it takes 20 seconds")
	}
	var finished atomic.Int64
	h, link := serveWorst(t, &finished)
	worst := worstRequests(h, link)
	for _, route := range httpapi.Routes(&h.options) {
		if _, ok := worst[route.Method+" "+route.Path]; !ok {
			t.Errorf("%s %s: the worst request is not known", route.Method, route.Path)
		}
	}
	var clients []string
	for range 3 {
		clients = append(clients, h.keyOf(""))
	}
	idle := usedHeap()
	for _, name := range slices.Sorted(maps.Keys(worst)) {
		words := strings.Fields(name)
		request := worst[name]
		request.path = cmp.Or(request.path, strings.ReplaceAll(words[1], "{id}", "1"))
		finished.Store(0)
		grown := h.stall(words[0], request, clients) - idle
		eventually(t, func() bool { return finished.Load() == routesClients })
		t.Logf("%5.1f MiB: %s", float64(grown)/(1<<20), name)
		// One request may exceed the memory, and some is counted when it is in use. What is
		// not counted would be routesClients times as much.
		if grown > 6*routesMemory {
			t.Errorf("%s takes %d MiB", name, grown>>20)
		}
	}
}

// usedHeap returns the size of the heap without garbage.
func usedHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// stall sends a request by several connections, which read no more than the status. It
// returns the largest heap until those that wait for memory have given up.
func (h *harness) stall(method string, request worstRequest, clients []string) (used int64) {
	contentType := "application/json"
	if request.zip {
		contentType = "application/zip"
	}
	var sending sync.WaitGroup
	var conns []net.Conn
	for i := range routesClients {
		conn := h.dial()
		conns = append(conns, conn)
		is.New(h.t).NoErr(conn.SetReadBuffer(4 << 10))
		sending.Go(func() { // an early response ends the request
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-Admin-Key: %s\r\nX-Api-Key: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
				method, request.path, adminKey, clients[i%len(clients)], contentType, len(request.body))
			io.Copy(conn, struct{ io.Reader }{strings.NewReader(request.body)}) // in parts
		})
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		used = max(used, usedHeap())
	}
	for _, conn := range conns {
		conn.Close()
	}
	sending.Wait()
	return used
}

// serveWorst starts a server with a little memory and long records, which counts finished
// requests. It returns the path of a link.
func serveWorst(t *testing.T, finished *atomic.Int64) (h *harness, link string) {
	pool, db := openSQLite(t, filepath.Join(t.TempDir(), "worst.db"))
	pool.SetMaxOpenConns(4)
	h = serve(t, func(o *httpapi.Options) {
		o.Symbols = must(symbols.NewService(db.Symbols(), nil))(t)
		o.Exports = must(exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{unsizedOpener(100 << 20)}, PrefetchBytes: 2 << 20}))(t)
		o.Observe = func(context.Context, httpapi.Observation) { finished.Add(1) }
		o.Limits = httpapi.Limits{Memory: routesMemory, ListCache: -1, StoreTimeout: 100 * time.Millisecond, IdleTimeout: 200 * time.Millisecond}
	})
	drawing := `<svg xmlns="http://www.w3.org/2000/svg"><!--` + strings.Repeat("a", 3<<20) + `--></svg>`
	image := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(drawing))
	longest := func(i int) string { return fmt.Sprint(i) + strings.Repeat("\U0001F600", 240) }
	folder := must(h.options.Symbols.CreateFolder(t.Context(), longest(0)))(t)
	for i := range 12 {
		must(h.options.Symbols.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "a " + longest(i), Type: "image/svg+xml", Data: image}))(t)
	}
	for i := range 500 {
		name := longest(i)
		must(h.options.Symbols.CreateFolder(t.Context(), name+"a"))(t)
		must(h.options.Keys.Create(t.Context(), keys.Fields{Name: &name, Owner: &name}))(t)
		h.export(routesSource(i), "https://x.example/"+strings.Repeat("u", 1000))
	}
	var made struct{ URL string }
	h.client("POST", "/viewer/exports/links", batchBody(routesSource(0), routesSource(1))).want(201).into(&made)
	return h, "/viewer/exports/" + made.URL
}
