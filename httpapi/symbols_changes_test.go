package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/testflag"
)

// event is a received event; its name is empty for a comment.
type event struct {
	name, id, data string
	end            bool // of the stream
}

// events is an open stream of events.
type events struct {
	t        *testing.T
	response *http.Response
	received chan event
}

// follow opens a stream, which must be accepted.
func (h *harness) follow(query string, headers ...string) *events {
	h.t.Helper()
	response := h.open("GET", "/symbol/changes"+query, "", headers...)
	is.New(h.t).Equal(response.StatusCode, 200)
	e := &events{h.t, response, make(chan event, 1000)}
	go e.read()
	h.t.Cleanup(e.close)
	return e
}

func (e *events) close() { e.response.Body.Close() }

// read sends events and comments to received, and the end of the stream.
func (e *events) read() {
	lines := bufio.NewScanner(e.response.Body)
	var current event
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			current.name = value
		case "id":
			current.id = value
		case "data":
			current.data = value
		case "":
			if lines.Text() == "" {
				e.received <- current
				current = event{}
			}
		}
	}
	e.received <- event{end: true}
}

// next returns the next event or comment.
func (e *events) next() event {
	e.t.Helper()
	select {
	case got := <-e.received:
		return got
	case <-time.After(time.Minute):
		e.t.Fatal("no event")
		return event{}
	}
}

// until reads events until what they name together is at least want: a folder list ("list")
// or ids of folders.
func (e *events) until(want ...string) event {
	e.t.Helper()
	missing := make(map[string]bool)
	for _, w := range want {
		missing[w] = true
	}
	for {
		got := e.next()
		if got.end {
			e.t.Fatalf("the stream has ended, without %v", missing)
		}
		var data struct {
			Folders   bool    `json:"folders"`
			FolderIDs []int64 `json:"folderIds"`
		}
		json.Unmarshal([]byte(got.data), &data)
		if data.Folders {
			delete(missing, "list")
		}
		for _, id := range data.FolderIDs {
			delete(missing, fmt.Sprint(id))
		}
		if len(missing) == 0 {
			return got
		}
	}
}

const everything = `{"folders":true,"folderIds":null}`

func TestChanges_Events(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	e := h.follow("")
	is.Equal(e.response.Header.Get("Content-Type"), "text/event-stream")
	is.Equal(e.response.Header.Get("Cache-Control"), "no-store")
	is.Equal(e.response.Header.Get("X-Accel-Buffering"), "no")
	first := e.next()
	is.Equal(first.name, "symbols")
	is.Equal(first.data, everything)
	h.folder("a")
	e.until("list")
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"a","type":"a/b","data":"x"}`).want(201)
	last := e.until("1")
	h.client("PATCH", "/symbol/symbols/1", `{"name":"b"}`).want(200)
	e.until("1")
	h.client("DELETE", "/symbol/folders/1", "").want(200)
	e.until("list")
	h.client("POST", "/symbol/trash/1/restore", "").want(200)
	latest := e.until("list", "1")

	is.Equal(h.follow("", "x-api-key", h.rawKey, "Last-Event-ID", latest.id).next(), event{}) // a comment
	is.Equal(h.follow("?lastEventId="+latest.id).next(), event{})
	is.Equal(h.follow("?lastEventId=x", "x-api-key", h.rawKey, "Last-Event-ID", latest.id).next(), event{})
	h.follow("?lastEventId="+last.id).until("list", "1")
	for _, id := range []string{"", "x", "0.0", "1.1", latest.id + "0", strings.ToUpper(latest.id) + "A", "-1.5"} {
		is.Equal(h.follow("?lastEventId="+id).next().data, everything)
	}
	h.client("GET", "/symbol/changes?lastEventId=a&lastEventId=b", "").wantError(400, "invalid_request")
	h.client("HEAD", "/symbol/changes", "").want(200).wantHeaders("Content-Type", "text/event-stream")
}

// TestChanges_End checks what ends a stream. Each ends within a lease of half a second and
// a check of the key, which the watchdog of next gives a minute.
func TestChanges_End(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *harness, id int64){
		"revoked": func(h *harness, id int64) { is.New(h.t).NoErr(h.options.Keys.Delete(h.t.Context(), id)) },
		"scope": func(h *harness, id int64) {
			must(h.options.Keys.Update(h.t.Context(), id, keys.Fields{Scopes: scopes("exports:read")}))(t)
		},
		"tenant": func(h *harness, id int64) {
			must(h.options.Keys.Update(h.t.Context(), id, keys.Fields{Owner: new("other")}))(t)
		},
		"expired token": func(h *harness, _ int64) { h.clock.Add(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			h := serve(t, withTenants)
			issued := must(h.options.Keys.Create(t.Context(), keys.Fields{Owner: new("owner")}))(t)
			token := h.send("POST", "/viewer/tokens", "", "x-api-key", string(issued.Raw)).want(201).object()["token"].(string)
			for _, e := range []*events{h.follow("?token="+token, "Accept", "*/*"), h.follow("", "x-api-key", token)} {
				is.Equal(e.response.Header.Get("Referrer-Policy") == "no-referrer", strings.Contains(e.response.Request.URL.RawQuery, "token"))
				is.Equal(e.next().data, everything)
				defer func() {
					last := e.next()
					for ; !last.end; last = e.next() {
						is.Equal(last.data, "") // no event after the key has ended
					}
				}()
			}
			record := must(h.options.Keys.Get(t.Context(), issued.Key.ID))(t)
			is.Equal(record.UseCount, int64(3)) // POST /viewer/tokens and two streams
			end(h, issued.Key.ID)
			must(h.options.Symbols.Tenant("owner").CreateFolder(t.Context(), "a"))(t)
		})
	}
}

func TestChanges_EndAtShutdown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	server := h.listen(httpapi.Handler(&h.options), configured)
	e := h.follow("")
	e.next()
	is.NoErr(server.Config.Shutdown(t.Context()))
	is.Equal(e.next(), event{}) // the hint when to retry
	is.True(e.next().end)
}

func TestChanges_OfTenants(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, withTenants)
	ownerKey, otherKey := h.keyOf("owner"), h.keyOf("other")
	owner, other := h.follow("", "x-api-key", ownerKey), h.follow("", "x-api-key", otherKey)
	owner.next()
	other.next()
	h.send("POST", "/symbol/folders", `{"name":"a"}`, "x-api-key", ownerKey).want(201)
	owner.until("list")
	h.send("POST", "/symbol/folders", `{"name":"b"}`, "x-api-key", otherKey).want(201)
	last := other.next()
	is.True(strings.Contains(last.data, `"folders":true`)) // its own is the first
	is.Equal(len(owner.received), 0)

	// The last id of one tenant tells another nothing.
	is.Equal(h.follow("", "x-api-key", otherKey, "Last-Event-ID", last.id).next().data, "")
	is.Equal(h.follow("", "x-api-key", ownerKey, "Last-Event-ID", last.id).next().data, everything)
}

func TestChanges_Limits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) { o.Limits.ChangeStreams, o.Limits.AllChangeStreams = 2, 3 })
	api := must(httpapi.New(&h.options))(t)
	h.listen(api)
	first := h.follow("")
	h.follow("")
	h.client("GET", "/symbol/changes", "").wantError(429, "too_many_requests")
	other := h.keyOf("")
	h.follow("", "x-api-key", other)
	h.send("GET", "/symbol/changes", "", "x-api-key", other).wantError(429, "too_many_requests")
	is.New(t).Equal(api.Stats(), httpapi.Stats{ChangeStreams: 3})
	first.close()
	for api.Stats().ChangeStreams == 3 {
		time.Sleep(time.Millisecond)
	}
	h.follow("")
}

func TestChanges_UnavailableStore(t *testing.T) {
	t.Parallel()
	pool, db := openSQLite(t, filepath.Join(t.TempDir(), "db"))
	h := serve(t, withSymbols(db.Symbols()), storeTimeout(300*time.Millisecond))
	is.New(t).NoErr(pool.Close())
	h.client("GET", "/symbol/changes", "").wantError(503, "unavailable")
}

// TestChanges_TokenExpiresDuringOutage has a stream of a key without an end, too.
func TestChanges_TokenExpiresDuringOutage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, db := openSQLite(t, filepath.Join(t.TempDir(), "db"))
	h := newHarness(t)
	h.options.Keys = must(keys.NewService(db.Keys(), &keys.Options{Now: h.clock.Now}))(t)
	h.rawKey = h.keyOf("")
	h.listen(httpapi.Handler(&h.options))
	ofKey, ofToken := h.follow(""), h.follow("", "x-api-key", h.token(""))
	is.NoErr(pool.Close())
	h.clock.Add(2 * time.Hour)
	for !ofToken.next().end {
	}
	for len(ofKey.received) > 0 {
		is.True(!ofKey.next().end)
	}
}

// TestChanges_ReadersConverge has two processes that change folders at random. Readers
// that reload what events name, and reconnect at random, end with the current versions.
func TestChanges_ReadersConverge(t *testing.T) {
	t.Parallel()
	writes := testflag.Rounds(50, 50, 250) // of each process
	for seed := range testflag.Rounds(1, 5, 100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			converge(t, uint64(seed), writes)
		})
	}
}

func converge(t *testing.T, seed uint64, writes int) {
	path := filepath.Join(t.TempDir(), "db")
	var processes [2]*harness
	for i := range processes {
		_, db := openSQLite(t, path)
		processes[i] = serve(t, withSymbols(db.Symbols()))
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range 5 {
		processes[0].client("POST", "/symbol/folders", fmt.Sprintf(`{"name":"%d"}`, i)).want(201)
	}
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for i, h := range processes {
		writer := rand.New(rand.NewPCG(seed, uint64(i)+2))
		writers.Go(func() {
			for range writes {
				folder := 1 + writer.IntN(5)
				switch writer.IntN(4) {
				case 0:
					h.client("PATCH", fmt.Sprintf("/symbol/folders/%d", folder), fmt.Sprintf(`{"name":"%d %d"}`, i, writer.Int())).want(200)
				case 1:
					h.client("DELETE", fmt.Sprintf("/symbol/symbols/%d", 1+writer.IntN(40)), "")
				default:
					h.client("POST", fmt.Sprintf("/symbol/folders/%d/symbols", folder), `{"name":"a","type":"a/b","data":"x"}`).want(201)
				}
			}
		})
		reader := rand.New(rand.NewPCG(seed, uint64(i)+4))
		from := processes[random.IntN(2)]
		readers.Go(func() { follow(t, from, reader, done) })
	}
	writers.Wait()
	close(done)
	readers.Wait()
	is.New(t).True(!t.Failed())
}

// follow reloads what events name, and checks in the end that it has what the server has.
func follow(t *testing.T, h *harness, random *rand.Rand, done <-chan struct{}) {
	known := make(map[string]string)
	load := func(path string) string { return string(h.client("GET", path, "").want(200).body) }
	contents := func(id int64) string { return fmt.Sprintf("/symbol/folders/%d/symbols", id) }
	id := ""
	for ended := false; !ended; {
		e := h.follow("?lastEventId=" + id)
		for count := 1 + random.IntN(6); count > 0; count-- {
			select {
			case got := <-e.received:
				if got.name == "" {
					continue
				}
				id = got.id
				var data struct {
					Folders   bool     `json:"folders"`
					FolderIDs *[]int64 `json:"folderIds"`
				}
				json.Unmarshal([]byte(got.data), &data)
				list := []int64{1, 2, 3, 4, 5}
				if data.FolderIDs != nil {
					list = *data.FolderIDs
				}
				if data.Folders {
					known["/symbol/folders"] = load("/symbol/folders")
				}
				for _, folder := range list {
					known[contents(folder)] = load(contents(folder))
				}
			case <-time.After(time.Second): // longer than an event takes
				select {
				case <-done:
					ended = true
				default:
				}
			}
		}
		e.close()
	}
	for path, body := range known {
		if current := load(path); current != body {
			t.Errorf("%s is %s, but the reader has %s", path, current, body)
		}
	}
	if len(known) != 6 {
		t.Errorf("the reader knows %d lists", len(known))
	}
}

// slowWriter is a ResponseWriter whose second Write, and the interruption of that, are slow.
type slowWriter struct {
	*httptest.ResponseRecorder
	writes      int
	interrupted atomic.Bool
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		time.Sleep(300 * time.Millisecond)
	}
	return len(p), nil
}

func (w *slowWriter) SetWriteDeadline(deadline time.Time) error {
	if deadline.Before(time.Now()) && !deadline.IsZero() {
		time.Sleep(300 * time.Millisecond)
		w.interrupted.Store(true)
	}
	return nil
}

// TestChanges_InterruptsNoEndedResponse has a stream whose last event is about to be interrupted
// when it has been written. Over HTTP/2 an interruption after the end would end the process.
func TestChanges_InterruptsNoEndedResponse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	deleted := time.AfterFunc(100*time.Millisecond, func() { h.options.Keys.Delete(context.Background(), 1) })
	defer deleted.Stop()
	request := httptest.NewRequest("GET", "/symbol/changes", http.NoBody)
	request.Header.Set("x-api-key", h.rawKey)
	w := &slowWriter{ResponseRecorder: httptest.NewRecorder()}
	httpapi.Handler(&h.options).ServeHTTP(w, request)
	before := w.interrupted.Load()
	time.Sleep(400 * time.Millisecond)
	is.New(t).Equal(w.interrupted.Load(), before)
}

// TestChanges_EndOfContext has middleware that limits the time of each request. The connection
// serves others then.
func TestChanges_EndOfContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	api := httpapi.Handler(&h.options)
	server := h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		api.ServeHTTP(w, r.WithContext(ctx))
	}), configured)
	conn := h.dial()
	received := bufio.NewReader(conn)
	for _, path := range []string{"/symbol/changes", "/symbol/folders"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", path, h.rawKey)
		response := receive(t, received, 200)
		must(io.ReadAll(response.Body))(t)
	}
	time.Sleep(100 * time.Millisecond) // the connection is idle
	is.NoErr(server.Config.Shutdown(t.Context()))
	_, err := received.ReadByte()
	is.Equal(err, io.EOF) // not reset
}
