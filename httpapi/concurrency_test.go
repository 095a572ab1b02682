package httpapi_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/testflag"
)

// The tests of this file are not parallel: they measure the process.

// resources are the resources of the process.
type resources struct {
	goroutines int
	heap       int64
}

func currentResources() resources {
	transport.CloseIdleConnections()
	heap := usedHeap() // waits for the garbage collector
	return resources{runtime.NumGoroutine(), heap}
}

// waitForResources waits until the process uses no more than before. The heap may
// have grown by 16 MiB of pools and buffers.
func waitForResources(t *testing.T, before resources) {
	t.Helper()
	const pooled = 16 << 20
	for over := time.Now().Add(testTimeout); ; time.Sleep(20 * time.Millisecond) {
		now := currentResources()
		if now.goroutines <= before.goroutines && now.heap <= before.heap+pooled {
			return
		}
		if time.Now().After(over) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("before %+v, and now %+v:\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestConcurrency_IdleConnections(t *testing.T) {
	h := newHarness(t)
	h.url, _ = serveWithTimeouts(t, httpapi.Handler(&h.options), func(server *http.Server) {
		server.ReadHeaderTimeout, server.IdleTimeout = time.Hour, time.Hour
	})
	h.client("GET", "/symbol/folders", "").want(200)
	before := currentResources()
	var idle []net.Conn
	for i := range 1000 {
		conn := h.dial()
		idle = append(idle, conn)
		io.WriteString(conn, "GET /symbol/folders HTTP/1.1\r\nHost: x\r\n"[:i%40]) // some incomplete
	}
	for range 50 {
		h.client("GET", "/symbol/folders", "").want(200)
		h.admin("GET", "/admin/api-keys", "").want(200)
	}
	is.New(t).True(runtime.NumGoroutine() >= before.goroutines+len(idle))
	for _, conn := range idle {
		conn.Close()
	}
	waitForResources(t, before)
}

func TestConcurrency_DisconnectingClients(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.IdleTimeout = 2 * time.Second })
	createFolder(t, h.options.Symbols, "A", 8, 700_000)
	h.register("s", "large.pdf", strings.Repeat("x", 4<<20))
	for i := range 3 {
		h.register(fmt.Sprint("s", i), fmt.Sprint(i, ".pdf"), strings.Repeat("x", 1<<20))
	}
	h.files["1.pdf"] = &fstest.MapFile{Data: make([]byte, 3<<20)}
	h.url, _ = serveWithTimeouts(t, httpapi.Handler(&h.options))
	bodies := map[string]string{
		"/viewer/exports/download":       exportBody("s"),
		"/viewer/exports/download-batch": batchBody("s0", "s", "s1", "none", "s2"),
		"/viewer/exports/register":       `{"sourceFileUrl":"new","exportedUrl":"https://files.example/out/0.pdf"}`,
		"/symbol/folders/{id}/symbols":   `{"name":"x","type":"a/b","data":"` + strings.Repeat("y", 100_000) + `"}`,
	}
	var requests []string
	for _, route := range httpapi.Routes(&h.options) {
		body := bodies[route.Path]
		id := "1"
		switch {
		case route.Method == "GET":
			body = ""
		case route.Method == "DELETE", strings.HasPrefix(route.Path, "/admin/api-keys/"):
			id = "77" // keep the fixtures
		case body == "":
			body = `{"name":"A"}`
		}
		requests = append(requests, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nX-Admin-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
			route.Method, strings.ReplaceAll(route.Path, "{id}", id), h.rawKey, adminKey, len(body), body))
	}
	disconnectAll := func(clients int) {
		random := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		free := make(chan struct{}, 32)
		for range clients {
			for _, request := range requests {
				written, read, reset := len(request), random.IntN(6<<20), random.IntN(2) == 0
				if random.IntN(2) == 0 {
					written, read = random.IntN(len(request)), 0
				}
				if random.IntN(4) == 0 {
					read = random.IntN(300) // within the header
				}
				free <- struct{}{}
				all.Go(func() {
					h.sendAndDisconnect(request[:written], read, reset)
					<-free
				})
			}
		}
		all.Wait()
	}
	disconnectAll(2) // fill pools and caches
	before := currentResources()
	for range 3 {
		disconnectAll(10)
		waitForResources(t, before)
	}
	_, errors, failed := strings.Cut(h.log.String(), "level=ERROR")
	t.Logf("%.2000s", errors)
	is.New(t).True(!failed)
	h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	h.client("POST", "/viewer/exports/download-batch", bodies["/viewer/exports/download-batch"]).want(200)
}

// sendAndDisconnect writes a request, reads up to read bytes of the response, and
// closes the connection, by RST if reset is true.
func (h *harness) sendAndDisconnect(request string, read int, reset bool) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Error(err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	io.WriteString(conn, request)
	if read > 0 {
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // the response may be shorter
		io.CopyN(io.Discard, conn, int64(read))
	}
	if reset {
		conn.(*net.TCPConn).SetLinger(0)
	}
}
