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
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// testTimeout ends operations that would never end without the limits under test. It
// is no measure of speed: machines may be busy.
const testTimeout = 2 * time.Minute

// connStates records the state of each connection of a server.
type connStates struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

func (s *connStates) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[net.Conn]http.ConnState)
	}
	s.all[conn] = state
}

// count returns the number of connections in a state.
func (s *connStates) count(state http.ConnState) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.all {
		if other == state {
			n++
		}
	}
	return n
}

// serveWithTimeouts starts a server with short timeouts. It returns its URL and the
// states of its connections.
func serveWithTimeouts(t *testing.T, handler http.Handler, change ...func(*http.Server)) (string, *connStates) {
	t.Helper()
	seen := new(connStates)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadHeaderTimeout = 2 * time.Second
	server.Config.ReadTimeout = 3 * time.Second
	server.Config.WriteTimeout = 10 * time.Second // from the end of the request header
	server.Config.IdleTimeout = 4 * time.Second
	server.Config.MaxHeaderBytes = 8 << 10
	for _, f := range change {
		f(server.Config)
	}
	server.Config.ConnState = seen.note
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, seen
}

func TestLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) {
		o.Limits.Body, o.Limits.Symbol, o.Limits.Batch, o.Limits.Import = 1000, 2000, 3000, 2500
	})
	h.url, _ = serveWithTimeouts(t, httpapi.Handler(&h.options))
	var all sync.WaitGroup
	defer all.Wait()
	for _, route := range httpapi.Routes(&h.options) {
		path := strings.ReplaceAll(route.Path, "{id}", "77") // does not exist
		if path == "/symbol/changes" {
			path += "?lastEventId=a&lastEventId=b" // a 400: a stream does not end
		}
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nX-Admin-Key: %s\r\n", route.Method, path, h.rawKey, adminKey)
		keyless := strings.NewReplacer(h.rawKey, "x", adminKey, "x").Replace(head)
		rejected, tooLarge := http.StatusUnauthorized, http.StatusRequestEntityTooLarge
		if route.Key == "" {
			rejected = anyStatus
		}
		chunksTooLarge := tooLarge
		if route.Method == "GET" || route.Method == "DELETE" || strings.HasSuffix(path, "/check") {
			chunksTooLarge = anyStatus // unread
		}
		length := func(n int64) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n", n) }
		const chunked = "Transfer-Encoding: chunked\r\n\r\n"
		for name, c := range map[string]struct {
			request string
			slowly  string // sent byte by byte after request
			status  int
		}{
			"a long header":                         {head + "X-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "", 431},
			"many headers":                          {head + strings.Repeat("X-Many: x\r\n", 6000) + "\r\n", "", 431},
			"a long target":                         {strings.Replace(head, path, path+"?"+strings.Repeat("x", 64<<10), 1) + "\r\n", "", 431},
			"a header that never ends":              {head, strings.Repeat("X-Slow: x\r\n", 1000), connClosed},
			"a length at the limit":                 {head + length(route.Limit) + strings.Repeat("x", int(route.Limit)), "", anyStatus},
			"a length over the limit":               {head + length(route.Limit+1), "", tooLarge},
			"chunks over the limit":                 {head + chunked + strings.Repeat("400\r\n"+strings.Repeat(" ", 1024)+"\r\n", 9) + "0\r\n\r\n", "", chunksTooLarge},
			"a body that never ends":                {head + length(1000), strings.Repeat("x", 1000), anyStatus},
			"chunks that never end":                 {head + chunked, strings.Repeat("1\r\nx\r\n", 1000), anyStatus},
			"a body that never ends, without a key": {keyless + length(1000), strings.Repeat("x", 1000), rejected},
		} {
			all.Go(func() {
				got := h.sendSlowly(c.request, c.slowly)
				ok := got == c.status
				switch c.status {
				case anyStatus:
					ok = 200 <= got && got < 500 && got != tooLarge
				case connClosed:
					ok = got == connClosed || got == 400 // from net/http
				case http.StatusRequestHeaderFieldsTooLarge:
					ok = ok || got == connClosed // the server closes with unread input, which may reset the connection
				}
				if !ok {
					t.Errorf("%s %s with %s: %d, want %d", route.Method, route.Path, name, got, c.status)
				}
			})
		}
	}
}

const (
	anyStatus  = 0  // any below 500 except 413
	connClosed = -1 // without a response
	noResponse = -2
)

// sendSlowly writes a request and then the rest of it, one byte every 20 ms, until
// there is a response. It returns its status, connClosed or noResponse.
func (h *harness) sendSlowly(request, slowly string) int {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Error(err)
		return noResponse
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	result := make(chan int, 1)
	go func() {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			result <- noResponse
		case err != nil:
			result <- connClosed
		default:
			io.Copy(io.Discard, response.Body)
			result <- response.StatusCode
		}
	}()
	if _, err := io.WriteString(conn, request); err != nil {
		return <-result // the response came before the end of the request
	}
	for i := range len(slowly) {
		select {
		case status := <-result:
			return status
		case <-time.After(20 * time.Millisecond):
			io.WriteString(conn, slowly[i:i+1])
		}
	}
	return <-result
}

// pipeListener accepts connections in memory, for tests with a fake clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// transport returns a client that dials the listener.
func (l *pipeListener) transport(http2 bool) *http.Transport {
	out := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil },
		Protocols:   new(http.Protocols),
	}
	out.Protocols.SetHTTP1(!http2)
	out.Protocols.SetUnencryptedHTTP2(http2)
	return out
}

// servePipe serves HTTP/1 and HTTP/2 in memory until the end of the test.
func servePipe(t *testing.T, handler http.Handler) *pipeListener {
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	httpapi.ConfigureServer(server)
	listener := newPipeListener()
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(listener) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return listener
}

func TestBodyRate_EndsSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, func(o *httpapi.Options) { o.Limits.BodyRate = 1 })
		listener := servePipe(t, httpapi.Handler(&h.options))
		var all sync.WaitGroup
		defer all.Wait()

		send := func(length int, part string, parts int, pause time.Duration) (status int, took time.Duration) {
			conn := listener.dial()
			defer conn.Close()
			responses := bufio.NewReader(conn)
			start := time.Now()
			fmt.Fprintf(conn, "POST /symbol/folders/1/symbols HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n", h.rawKey, length)
			all.Go(func() {
				for range parts {
					time.Sleep(pause)
					if _, err := io.WriteString(conn, part); err != nil {
						return
					}
				}
			})
			response, err := http.ReadResponse(responses, nil)
			if err != nil {
				t.Error(err)
				return 0, 0
			}
			io.Copy(io.Discard, response.Body)
			took = time.Since(start)
			if parts*len(part) != length {
				if _, err := responses.ReadByte(); err == nil || time.Since(start) > took+time.Second {
					t.Errorf("the connection is not closed: %v", err)
				}
			}
			return response.StatusCode, took
		}
		for _, c := range []struct {
			name   string
			length int
			part   string
			parts  int
			pause  time.Duration
			status int
			least  time.Duration
			most   time.Duration
		}{
			{"nothing", 50 << 20, "", 0, 0, 400, 10 * time.Second, 12 * time.Second},
			{"some bytes", 50 << 20, `{"name":"`, 1, 0, 400, 10 * time.Second, 12 * time.Second},
			{"too slow", 2000, "     ", 400, 6 * time.Second, 400, 10 * time.Second, 12 * time.Second},
			{"slow", 240, "            ", 20, 9 * time.Second, 400, 3 * time.Minute, 4 * time.Minute}, // 400 because it is no object
			{"too long", 50 << 20, "            ", 100, 9 * time.Second, 400, 5 * time.Minute, 5*time.Minute + 2*time.Second},
			{"fast", 3, "{} ", 1, 0, 400, 0, time.Second},
		} {
			t.Log(c.name)
			status, took := send(c.length, c.part, c.parts, c.pause)
			is.Equal(status, c.status)
			is.True(took >= c.least)
			is.True(took <= c.most)
		}

		// A body at its end has no timeout: the next request comes later.
		conn := listener.dial()
		defer conn.Close()
		responses := bufio.NewReader(conn)
		for _, name := range []string{"a", "b"} {
			body := `{"name":"` + name + `"}`
			fmt.Fprintf(conn, "POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", h.rawKey, len(body), body)
			text, _ := io.ReadAll(receive(t, responses, 201).Body)
			is.True(strings.Contains(string(text), name))
			time.Sleep(time.Minute)
		}
	})
}

// stuckStore is a store that does not list segments.
type stuckStore struct{ symbols.Store }

func (stuckStore) ListSegments(ctx context.Context) ([]symbols.Segment, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTurns_WaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withSymbols(stuckStore{memory.New().Symbols()}), storeTimeout(time.Hour))
		api := httpapi.Handler(&h.options)
		var all sync.WaitGroup
		for _, want := range []time.Duration{time.Hour, time.Minute} {
			all.Go(func() {
				start := time.Now()
				out := serveOnce(api, "GET", "/symbol/search?q=valve&limit=1000", "", "x-api-key", h.rawKey)
				if took := time.Since(start); out.Code != http.StatusServiceUnavailable || took != want {
					t.Errorf("%d after %v; want 503 after %v", out.Code, took, want)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

func TestTurns_KeyIsRevokedDuringWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, withSymbols(stuckStore{memory.New().Symbols()}), storeTimeout(10*time.Second))
		api := httpapi.Handler(&h.options)
		var all sync.WaitGroup
		for _, want := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
			all.Go(func() {
				is.Equal(serveOnce(api, "GET", "/symbol/search?q=valve&limit=1000", "", "x-api-key", h.rawKey).Code, want)
			})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		is.NoErr(h.options.Keys.Delete(t.Context(), 1))
		all.Wait()
	})
}

// sendHTTP2 sends the header of a request, with fields given as pairs, and returns what reads the
// frames of the response.
func (h *harness) sendHTTP2(settings []http2.Setting, endStream bool, fields ...string) *http2.Framer {
	conn := servePipe(h.t, httpapi.Handler(&h.options)).dial()
	h.t.Cleanup(func() { conn.Close() })
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	framer := http2.NewFramer(conn, conn)
	go func() { // a pipe has no buffer
		io.WriteString(conn, http2.ClientPreface)
		framer.WriteSettings(settings...)
		framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: endStream,
		})
	}()
	return framer
}

func TestBodyRate_EmptyBodyOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		start := time.Now()
		framer := h.sendHTTP2(nil, false, ":method", "POST", ":scheme", "http", ":path", "/symbol/folders",
			"x-api-key", h.rawKey, "content-length", "0")
		for must(framer.ReadFrame())(t).Header().StreamID != 1 {
		}
		is.New(t).Equal(time.Since(start), 10*time.Second)
	})
}

func TestIdleTimeout_ShortResponseOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		noWindow := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}
		framer := newHarness(t).sendHTTP2(noWindow, true, ":method", "GET", ":scheme", "http", ":path", "/nope")
		for must(framer.ReadFrame())(t).Header().Type != http2.FrameRSTStream {
		}
		is.New(t).Equal(time.Since(start), time.Minute)
	})
}

// TestBody_WaitsForMemoryOverHTTP2 has a body that waits for memory for longer than its
// client may take to send a part of it.
func TestBody_WaitsForMemoryOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, func(o *httpapi.Options) { o.Limits.Memory = 8 << 20 })
		listener := servePipe(t, httpapi.Handler(&h.options))
		var all sync.WaitGroup
		defer all.Wait()
		must(h.options.Symbols.CreateFolder(t.Context(), "A"))(t)

		// send sends a symbol, and its last bytes after a pause.
		send := func(http2 bool, size int, pause time.Duration) (status int) {
			transport := listener.transport(http2)
			defer transport.CloseIdleConnections()
			text := `{"name":"n","type":"text/plain","data":"` + strings.Repeat("x", size) + `"}`
			reader, writer := io.Pipe()
			all.Go(func() {
				rest := len(text) - 5000*int(pause/time.Second)
				io.WriteString(writer, text[:rest])
				for ; rest < len(text); rest += 5000 {
					time.Sleep(time.Second)
					io.WriteString(writer, text[rest:rest+5000])
				}
				writer.Close()
			})
			request := must(http.NewRequestWithContext(t.Context(), "POST", "http://canvas.example/symbol/folders/1/symbols", reader))(t)
			request.ContentLength = int64(len(text))
			request.Header.Set("X-Api-Key", h.keyOf(""))
			request.Header.Set("Content-Type", "application/json")
			response := must(transport.RoundTrip(request))(t)
			defer response.Body.Close()
			return response.StatusCode
		}
		for range 2 { // these take the memory
			all.Go(func() { is.Equal(send(false, 1_700_000, 15*time.Second), http.StatusCreated) })
			synctest.Wait()
		}
		start := time.Now()
		is.Equal(send(true, 3_000_000, 0), http.StatusCreated)
		is.True(time.Since(start) > 10*time.Second)
	})
}

// slowStore takes a while to delete a folder and to change symbols, or does not respond at
// all.
type slowStore struct {
	symbols.Store
	isDown *atomic.Bool
}

func (s slowStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	if s.isDown.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return s.Store.FolderListVersion(ctx)
}

func (s slowStore) DeleteFolder(ctx context.Context, id int64, d symbols.Deletion) error {
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	return s.Store.DeleteFolder(ctx, id, d)
}

func (s slowStore) UpdateSymbols(context.Context, []int64, symbols.Stamp, func(*symbols.SymbolInfo) error) (int, error) {
	time.Sleep(3 * time.Second)
	return 1, nil
}

func TestTurns_ManySymbols(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withSymbols(slowStore{memory.New().Symbols(), new(atomic.Bool)}))
		api, start := httpapi.Handler(&h.options), time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				out := serveOnce(api, "PATCH", "/symbol/symbols", `{"ids":[1],"addTags":["a"]}`, "x-api-key", h.rawKey)
				if out.Code != http.StatusOK {
					t.Errorf("%d %s", out.Code, out.Body)
				}
			})
		}
		all.Wait()
		is.New(t).Equal(time.Since(start), 6*time.Second)
	})
}

// TestStoreTimeout_LargeFolder deletes a folder that takes longer than other records, and
// another one when the store is not available.
func TestStoreTimeout_LargeFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := slowStore{memory.New().Symbols(), new(atomic.Bool)}
		h := newHarness(t, withSymbols(store), storeTimeout(time.Second))
		api := httpapi.Handler(&h.options)
		for i, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			folder := must(h.options.Symbols.CreateFolder(t.Context(), fmt.Sprint(i)))(t)
			start := time.Now()
			is.Equal(serveOnce(api, "DELETE", fmt.Sprint("/symbol/folders/", folder.ID), "", "x-api-key", h.rawKey).Code, want)
			is.Equal(time.Since(start), []time.Duration{3 * time.Second, time.Second}[i])
			store.isDown.Store(true)
		}
	})
}

func (s slowStore) InsertSymbols(ctx context.Context, folderID int64, list []symbols.Symbol) ([]symbols.Symbol, error) {
	time.Sleep(3 * time.Second)
	return list, ctx.Err()
}

func TestStoreTimeout_ManyIcons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := slowStore{memory.New().Symbols(), new(atomic.Bool)}
		h := newHarness(t, withSymbols(store), storeTimeout(2*time.Second))
		must(h.options.Symbols.CreateFolder(t.Context(), "A"))(t)
		var icons []string
		for i := range 17_000 {
			icons = append(icons, fmt.Sprintf(`"%d":{"body":"<g/>"}`, i))
		}
		set := `{"prefix":"many","icons":{` + strings.Join(icons, ",") + `}}`
		is.New(t).Equal(serveOnce(httpapi.Handler(&h.options), "POST", "/symbol/folders/1/import", set, "x-api-key", h.rawKey).Code, http.StatusCreated)
	})
}

func TestStoreTimeout_ManyRawKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, func(o *httpapi.Options) {
			distant := findHook{memory.New().Keys(), func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }}
			o.Keys = must(keys.NewService(distant, nil))(t)
			o.RevokeRoute = true
		})
		var raws []string
		for range 1000 {
			raws = append(raws, h.keyOf(""))
		}
		out := serveOnce(httpapi.Handler(&h.options), "POST", "/viewer/key/revoke", `{"apiKeys":["`+strings.Join(raws, `","`)+`"]}`)
		is.Equal(out.Code, http.StatusOK)
		is.Equal(strings.TrimSpace(out.Body.String()), `{"revoked":1000}`)
	})
}

// TestTurns_WaitForNoClient has a client that sends slowly, and one that reads slowly, what
// they do in their turn.
func TestTurns_WaitForNoClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(*httpapi.Options) {})
		listener := servePipe(t, httpapi.Handler(&h.options))
		must(h.options.Symbols.CreateFolder(t.Context(), "A"))(t)
		archive := blankZip(t, 100, 100)
		begin := func(path string, body string, length int) net.Conn {
			conn := listener.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, h.rawKey, length, body)
			synctest.Wait()
			return conn
		}
		const dryRun = "/symbol/folders/1/import?dryRun=true"
		defer begin("/symbol/trash/1/restore", "{", 2).Close()
		defer begin(dryRun, archive, len(archive)).Close() // a pipe has no buffer
		start := time.Now()
		conn := begin(dryRun, archive, len(archive))
		defer conn.Close()
		receive(t, conn, http.StatusOK)
		is.New(t).True(time.Since(start) < time.Second)
	})
}

func TestConfigureServer_BuffersLittleOfABody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := servePipe(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		var all sync.WaitGroup
		defer all.Wait()
		transport := listener.transport(true)
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		var sent atomic.Int64
		all.Go(func() {
			for _, err := writer.Write(make([]byte, 1000)); err == nil; _, err = writer.Write(make([]byte, 1000)) {
				sent.Add(1000)
			}
		})
		all.Go(func() {
			request, _ := http.NewRequestWithContext(ctx, "POST", "http://canvas.example/", reader)
			transport.RoundTrip(request)
			reader.Close()
		})
		synctest.Wait()
		if n := sent.Load(); n < 200_000 || n > 300_000 {
			t.Errorf("the server takes %d bytes", n)
		}
		cancel()
	})
}

// TestConfigureServer_ClosesUnreadConnections has a client that opens all windows of HTTP/2 and
// then reads nothing. It writes frames of RFC 9113.
func TestConfigureServer_ClosesUnreadConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		conn := servePipe(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			for err := error(nil); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
			}
			ended <- time.Since(began)
		})).dial()
		defer conn.Close()
		io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
			"\x00\x00\x06\x04\x00\x00\x00\x00\x00"+"\x00\x04\x40\x00\x00\x00"+ // SETTINGS_INITIAL_WINDOW_SIZE
			"\x00\x00\x04\x08\x00\x00\x00\x00\x00"+"\x3f\xff\xff\xff"+ // WINDOW_UPDATE of the connection
			"\x00\x00\x06\x01\x05\x00\x00\x00\x01"+"\x82\x84\x86\x01\x01x") // HEADERS: GET http://x/
		if took := <-ended; took > time.Minute+time.Second {
			t.Error(took)
		}
	})
}

func TestDecode_BoundsFields(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(*httpapi.Options) {})
	symbol := func(more string) string {
		return `{"name":"n","type":"a/b","data":"\\\":` + strings.Repeat(`\":`, 1<<20) + `"` + more + "}"
	}
	h.client("POST", "/symbol/folders/1/symbols", symbol("")).want(201)
	var names strings.Builder
	for i := range 1 << 20 {
		fmt.Fprintf(&names, `,"%x" :0`, i)
	}
	h.client("POST", "/symbol/folders/1/symbols", symbol(names.String())).wantError(400, "invalid_request")
}
