package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// TestDownloads_AreLimitedForEachClient has downloads whose clients do not read, by each
// route and by a link.
func TestDownloads_AreLimitedForEachClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveExport(t, unsizedOpener(100<<20))
	h.options.Limits.Downloads = 3
	h.listen(httpapi.Handler(&h.options))
	l := &linkHarness{harness: h}
	_, link := l.create(exportBody("s"))
	other := h.anotherKey()

	open := func(key string, kind int) (net.Conn, *http.Response) {
		conn := h.dial()
		body := [...]string{exportBody("s"), batchBody("s"), ""}[kind]
		line := [...]string{"POST /viewer/exports/download", "POST /viewer/exports/download-batch", "GET " + link}[kind]
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", line, key, len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		is.NoErr(err)
		return conn, response
	}
	var conns []net.Conn
	for kind := range 3 {
		conn, response := open(h.rawKey, kind)
		is.Equal(response.StatusCode, 200)
		conns = append(conns, conn)
	}
	for kind := range 3 {
		conn, response := open(h.rawKey, kind)
		is.Equal(response.StatusCode, 429)
		is.Equal(response.Header.Get("Retry-After"), "1")
		is.NoErr(conn.Close())
	}
	h.client("POST", "/viewer/exports/links", exportBody("s")).wantError(429, "too_many_requests")
	h.client("GET", "/symbol/folders", "").want(200)
	conn, response := open(other, 0)
	is.Equal(response.StatusCode, 200)
	is.NoErr(conn.Close())
	conn, response = open(other, 2) // counts for the key of the link
	is.Equal(response.StatusCode, 429)
	is.NoErr(conn.Close())

	is.NoErr(conns[0].Close())
	eventually(t, func() bool {
		conn, response := open(h.rawKey, 0)
		conn.Close()
		return response.StatusCode == 200
	})
}

// TestDownloads_OfClientIPsAreLimited has no client keys.
func TestDownloads_OfClientIPsAreLimited(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveExport(t, unsizedOpener(100<<20))
	h.options.Limits.Downloads, h.options.DangerouslySkipClientKeys = 1, true
	h.options.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Client") }
	api := newAPI(t, h.options)
	h.listen(api)
	status := func(ip string) int {
		conn := h.dial()
		body := exportBody("s")
		fmt.Fprintf(conn, "POST /viewer/exports/download HTTP/1.1\r\nHost: x\r\nX-Client: %s\r\nContent-Length: %d\r\n\r\n%s", ip, len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		is.NoErr(err)
		return response.StatusCode
	}
	got := []int{status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2"), status(strings.Repeat("x", 2000))}
	is.New(t).Equal(got, []int{200, 429, 200, 200})
}
