package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// dial opens a TCP connection to the server, with a deadline.
func (h *harness) dial() *net.TCPConn {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	is.New(h.t).NoErr(err)
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return conn.(*net.TCPConn)
}

// receive reads a response, which must have the status. Its body is unread.
func receive(t *testing.T, conn io.Reader, status int) *http.Response {
	t.Helper()
	response := must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	is.New(t).Equal(response.StatusCode, status)
	return response
}

func TestConnection_StalledBodyDoesNotDelayErrors(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.Limits.BodyRate = -1 }) // reading a stalled body never ends
	for request, want := range map[string]int{
		"POST /symbol/folders HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{":                                                           401,
		"POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{":                                                                     404,
		"PUT /symbol/folders HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n":                                                      405,
		"POST /symbol/folders/x/symbols HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\nContent-Length: 100\r\n\r\n":                   400,
		"POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\nContent-Length: 99999999999\r\n\r\n":                     413,
		"DELETE /symbol/folders/1 HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\nContent-Length: 99999999\r\n\r\n":                    413,
		"POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n": 413,
	} {
		t.Log(request)
		conn := h.dial()
		io.WriteString(conn, request)
		receive(t, conn, want)
	}
}

func TestConnection_ReusedAfterUnreadBody(t *testing.T) {
	t.Parallel()
	h := serve(t)
	conn := h.dial()
	reader := bufio.NewReader(conn)
	for range 3 {
		fmt.Fprintf(conn, "POST /symbol/folders HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n%s", strings.Repeat("x", 2000))
		response := receive(t, reader, 401)
		io.Copy(io.Discard, response.Body)
		is.New(t).True(!response.Close)
	}
}

// interruptedKeys is a store whose client disconnects before an insertion.
type interruptedKeys struct {
	keys.Store
	disconnect func()
}

func (s interruptedKeys) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	s.disconnect()
	if ctx.Err() != nil {
		return keys.Key{}, ctx.Err()
	}
	return s.Store.Insert(ctx, key)
}

func TestConnection_DisconnectDoesNotCancelStoreCalls(t *testing.T) {
	t.Parallel()
	ctx, disconnect := context.WithCancel(t.Context())
	service := must(keys.NewService(interruptedKeys{memory.New().Keys(), disconnect}, nil))(t)
	api := httpapi.Handler(&httpapi.Options{Keys: service, AdminKeys: []string{adminKey}})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.ServeHTTP(w, r.WithContext(ctx)) })
	is.New(t).Equal(serveOnce(handler, "POST", "/admin/api-keys", "", "x-admin-key", adminKey).Code, 201)
}

// truncatedOpener opens files of a size, or of unknown size if negative, whose Read
// fails after length bytes. It cannot open /gone.
type truncatedOpener struct {
	anyURL
	size, length int64
	panics       bool // instead of returning an error
}

func (o truncatedOpener) Open(_ context.Context, u *url.URL) (*exports.File, error) {
	if u.Path == "/gone" {
		return nil, errors.New("nothing there")
	}
	end := iotest.ErrReader(io.ErrUnexpectedEOF)
	if o.panics {
		end = panickingReader{}
	}
	body := io.MultiReader(bytes.NewReader(make([]byte, o.length)), end)
	return &exports.File{Body: io.NopCloser(body), Size: o.size}, nil
}

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("a bug in a body") }

func TestDownload_EarlyFailureIs502(t *testing.T) {
	t.Parallel()
	for _, opener := range []truncatedOpener{{size: 1000, length: 500}, {size: -1, length: 100}, {size: -1}, {size: 1 << 20, length: 4000}} {
		h := serveExport(t, opener)
		h.client("POST", "/viewer/exports/download", exportBody("s")).wantError(502, "export_failed")
		h.client("POST", "/viewer/exports/download-batch", batchBody("s")).wantError(502, "export_failed")
	}
}

// withOpener is withExports for exports that are opened by opener only.
func withOpener(opener exports.Opener) func(*httpapi.Options) {
	return withExports(exports.Options{Openers: []exports.Opener{opener}})
}

// serveExport serves an export of opener for the source s.
func serveExport(t *testing.T, opener exports.Opener, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := serve(t, append(change, withOpener(opener))...)
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://x.example/"}`).want(201)
	return h
}

// TestDownload_TruncationShows uses HTTP/1.0, where FIN ends the body, and HTTP/1.1,
// also behind a middleware that recovers panics.
func TestDownload_TruncationShows(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		h := serveExport(t, truncatedOpener{size: -1, length: 100_000, panics: panics})
		body := exportBody("s")
		for _, recovers := range []bool{false, true} {
			h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if recovers {
						recover()
					}
				}()
				httpapi.Handler(&h.options).ServeHTTP(w, r)
			}))
			for _, version := range []string{"1.0", "1.1"} {
				conn := h.dial()
				fmt.Fprintf(conn, "POST /viewer/exports/download HTTP/%s\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", version, h.rawKey, len(body), body)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					continue // reset before the header was read
				}
				_, err = io.Copy(io.Discard, response.Body)
				is.New(t).True(err != nil) // a truncated response does not end like a complete one
			}
		}
	}
}

// TestDownload_GrowingFileKeepsItsLength: a client would read bytes beyond
// Content-Length as the next response.
func TestDownload_GrowingFileKeepsItsLength(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "log.txt")
	is.NoErr(os.WriteFile(name, bytes.Repeat([]byte("x"), 1000), 0o600))
	inner := must(files.New("https://x.example/", os.DirFS(dir)))(t)
	h := serve(t, withOpener(growingOpener{inner, name}))
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://x.example/log.txt"}`).want(201)
	body := exportBody("s")
	conn := h.dial()
	fmt.Fprintf(conn, "POST /viewer/exports/download HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", h.rawKey, len(body), body)
	response := must(io.ReadAll(conn))(t)
	_, content, _ := bytes.Cut(response, []byte("\r\n\r\n"))
	is.Equal(len(content), 1000)
}

// growingOpener appends to a file after opening it.
type growingOpener struct {
	exports.Opener
	name string
}

func (g growingOpener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	file, err := g.Opener.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	more, err := os.OpenFile(g.name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer more.Close()
	_, err = more.WriteString("HTTP/1.1 200 OK\r\n\r\n")
	return file, err
}

// slowOpener opens files that block until release is closed, except /now.
type slowOpener struct {
	anyURL
	release chan struct{}
	read    *atomic.Int64 // bytes of /slow
}

func (o slowOpener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	switch u.Path {
	case "/now":
		return &exports.File{Body: io.NopCloser(strings.NewReader("now")), Size: 3}, nil
	case "/slow":
		return &exports.File{Body: io.NopCloser(slowReader{o.release, o.read}), Size: -1}, nil
	}
	select {
	case <-o.release:
		return nil, exports.ErrFailed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// slowReader returns a byte every 10 ms until the channel is closed.
type slowReader struct {
	until <-chan struct{}
	read  *atomic.Int64
}

func (d slowReader) Read(p []byte) (int, error) {
	select {
	case <-d.until:
		return 0, io.EOF
	case <-time.After(10 * time.Millisecond):
		d.read.Add(1)
		return copy(p, "."), nil
	}
}

// TestDownload_SlowFileDoesNotDelayHeader: net/http buffers the first 4 KB, which a slow
// file may not have for a long time.
func TestDownload_SlowFileDoesNotDelayHeader(t *testing.T) {
	t.Parallel()
	for path, sources := range map[string][]string{
		"/viewer/exports/download-batch": {"now", "later"},
		"/viewer/exports/download":       {"slow"},
	} {
		t.Log(path)
		o := slowOpener{release: make(chan struct{}), read: new(atomic.Int64)}
		h := serveExport(t, o)
		body := exportBody(sources[0])
		if len(sources) > 1 {
			body = batchBody(sources...)
		}
		for _, source := range sources {
			h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"`+source+`","exportedUrl":"https://x.example/`+source+`"}`).want(201)
		}
		late := time.AfterFunc(testTimeout, func() {
			t.Errorf("%s: no header while the file is slow", path)
			close(o.release)
		})
		response := h.open("POST", path, body)
		is.New(t).True(o.read.Load() < 1000)
		if late.Stop() {
			close(o.release)
		}
		must(io.Copy(io.Discard, response.Body))(t)
		response.Body.Close()
	}
}

// TestDrain_UnreadBody: net/http alone would wait for an unread body before or
// after the response.
func TestDrain_UnreadBody(t *testing.T) {
	t.Parallel()
	h := serveFolder(t)
	for request, want := range map[string]int{
		"GET /symbol/folders HTTP/1.1\r\nContent-Length: 100":                                     200,
		"GET /symbol/folders/1/symbols HTTP/1.1\r\nTransfer-Encoding: chunked":                    200,
		"GET /symbol/folders/1/export HTTP/1.1\r\nContent-Length: 100":                            200,
		"GET /openapi.json HTTP/1.1\r\nContent-Length: 100":                                       200,
		"DELETE /symbol/symbols/9 HTTP/1.1\r\nContent-Length: 100":                                404,
		"POST /nope HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 100":                      404,
		"POST /symbol/folders HTTP/1.1\r\nX-None: 1\r\nExpect: 100-continue\r\nContent-Length: 9": -401,
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			conn := h.dial()
			credentials := "X-Api-Key: " + h.rawKey + "\r\nX-Admin-Key: " + adminKey + "\r\n"
			if want < 0 {
				want, credentials = -want, ""
			}
			fmt.Fprintf(conn, "%s\r\nHost: x\r\n%s\r\n1", request, credentials)
			response := receive(t, conn, want)
			must(io.Copy(io.Discard, response.Body))(t)
			must(io.Copy(io.Discard, conn))(t) // the server closes the connection
		})
	}
}

// bodyRecorder is a recorder with a body, each Read of which must have a deadline.
type bodyRecorder struct {
	*httptest.ResponseRecorder
	*strings.Reader
	is       *is.I
	deadline time.Time
}

func (r *bodyRecorder) SetReadDeadline(t time.Time) error {
	r.deadline = t
	return nil
}

func (r *bodyRecorder) Read(p []byte) (int, error) {
	r.is.True(!r.deadline.IsZero())
	return r.Reader.Read(p)
}

// TestBody_DeadlinesAndSize has bodies that are drained, or closed if they are large, and one
// that needs more memory while it arrives.
func TestBody_DeadlinesAndSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	for _, c := range []struct {
		path         string
		size, length int
		unread       int
		connection   string
	}{
		{"/nope", 1000, 1000, 0, ""},
		{"/nope", 300_000, 300_000, 300_000, "close"},
		{"/nope", 300_000, -1, 300_000 - 256<<10, "close"},
		{"/symbol/folders", 20_000, -1, 0, ""},
	} {
		w := &bodyRecorder{httptest.NewRecorder(), strings.NewReader(fmt.Sprintf("%*s", c.size, `{"name":"A"}`)), is, time.Time{}}
		request := httptest.NewRequest("POST", c.path, w)
		request.ContentLength = int64(c.length)
		request.Header.Set("X-Api-Key", h.rawKey)
		httpapi.Handler(&h.options).ServeHTTP(w, request)
		is.Equal(w.Len(), c.unread)
		is.Equal(w.Header().Get("Connection"), c.connection)
	}
}

// TestDrain_LargeBodyOfLastRequest has clients that keep no connection, as nginx by default,
// and that send Expect without waiting for 100 (Continue), as Caddy.
func TestDrain_LargeBodyOfLastRequest(t *testing.T) {
	t.Parallel()
	h := serve(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for key, want := range map[string]int{"wrong": 401, h.rawKey: 413} {
		for i := range 16 {
			request := must(http.NewRequest("POST", h.url+"/symbol/folders/1/import", bytes.NewReader(make([]byte, 70<<20))))(t)
			request.Header.Set("X-Api-Key", key)
			if i >= 8 {
				request.Header.Set("Expect", "100-continue")
			}
			response := must(client.Do(request))(t)
			response.Body.Close()
			is.New(t).Equal(response.StatusCode, want)
		}
	}
}

// TestDrain_WithoutDeadlines has a middleware that hides the deadlines of the server, and a
// body that does not arrive.
func TestDrain_WithoutDeadlines(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(*httpapi.Options) {})
	h.listen(http.TimeoutHandler(httpapi.Handler(&h.options), testTimeout, ""))
	conn := h.dial()
	fmt.Fprint(conn, "POST /symbol/folders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: wrong\r\nContent-Length: 1000\r\n\r\n")
	receive(t, conn, 401)
}

func TestBody_ArrivesAfterRevocation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	seen := make(chan httpapi.Observation, 5)
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Observe = func(_ context.Context, o httpapi.Observation) {
			if o.Duration > time.Second {
				seen <- o
			}
		}
	})
	const body = `{"name":"after revocation"}`
	conns := make([]net.Conn, 3)
	for i := range conns {
		conns[i] = h.startBody("/symbol/folders", h.rawKey, len(body), body[:5])
	}
	empty := []net.Conn{h.dial(), h.dial()} // a body without content may have any type
	for i, conn := range empty {
		fmt.Fprintf(conn, "PATCH /symbol/folders/1 HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
			h.rawKey, []string{"text/plain", "application/json"}[i])
	}
	time.Sleep(1100 * time.Millisecond)
	for i, change := range []func(){
		func() { h.admin("PATCH", "/admin/api-keys/1", `{"scopes":["symbols:read"]}`).want(200) },
		func() { h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200) },
		func() { h.admin("DELETE", "/admin/api-keys/1", "").want(200) },
	} {
		change()
		fmt.Fprint(conns[i], body[5:])
		response := receive(t, conns[i], []int{403, 403, 401}[i])
		is.Equal((<-seen).KeyID, int64(1)) // also of a deleted key
		is.Equal(response.StatusCode, h.client("POST", "/symbol/folders", body).status)
	}
	for _, conn := range empty {
		fmt.Fprint(conn, "0\r\n\r\n")
		receive(t, conn, 401)
	}
}

func TestAuthorize_WaitsDuringRevocation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	h.options.Authorize = func(_ *http.Request, key keys.Key, _ string) error {
		time.Sleep(1100 * time.Millisecond)
		is.NoErr(h.options.Keys.Delete(t.Context(), key.ID))
		return nil
	}
	api := must(httpapi.New(&h.options))(t)
	own := api.RequireClientKey(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key was deleted") }))
	for _, handler := range []http.Handler{api, own} {
		is.Equal(serveOnce(handler, "GET", "/symbol/folders", "", "x-api-key", h.keyOf("")).Code, 401)
	}
}

// TestList_EndsAfterRevocation deletes a key while its client does not read a long list, or
// the zip of a folder.
func TestList_EndsAfterRevocation(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/symbol/folders/1/symbols", "/symbol/search?q=symbol&fields=data", "/symbol/folders/1/export"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			h := serve(t, func(o *httpapi.Options) { o.Limits.ListCache = -1 })
			createFolder(t, h.options.Symbols, "A", 32, 1<<20)
			conn := h.dial()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", path, h.rawKey)
			response := receive(t, conn, 200)
			time.Sleep(1100 * time.Millisecond)
			is.NoErr(h.options.Keys.Delete(t.Context(), 1))
			_, err := io.Copy(io.Discard, response.Body)
			is.True(err != nil)
		})
	}
}

// A body that middleware has read must not count as none, which leaves out restrictions.
func TestBody_ReadByMiddleware(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	api := httpapi.Handler(&h.options)
	h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		api.ServeHTTP(w, r)
	}))
	h.client("POST", "/viewer/tokens", `{"scopes":["exports:read"]}`).wantError(500, "internal")
	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).wantError(500, "internal")
	h.wantLog("middleware has read the body")
	h.client("POST", "/viewer/tokens", "").want(201)
}
