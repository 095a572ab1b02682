package linkserve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOutage = errors.New("the store is unavailable")

// plan is larger than the buffers of a connection.
var plan = bytes.Repeat([]byte("canvasback"), 64<<20/10)

// linkServer serves a link to a file of 64 MiB.
type linkServer struct {
	*httptest.Server
	results  chan error // of Serve
	checkKey atomic.Pointer[func() error]
}

func newLinkServer(t *testing.T, checkKey func() error) *linkServer {
	is := is.New(t)
	opener, err := files.New("https://files.example/", fstest.MapFS{
		"plan.txt": {Data: plan, ModTime: time.Unix(1e9, 0)},
	})
	is.NoErr(err)
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	is.NoErr(err)
	export, _, err := service.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://files.example/plan.txt"})
	is.NoErr(err)
	link, err := service.CreateLink(t.Context(), exports.LinkRequest{Items: []exports.BatchItem{{SourceURL: export.SourceURL, Export: &export}}, Single: true})
	is.NoErr(err)

	l := &linkServer{results: make(chan error, 1)}
	l.checkKey.Store(&checkKey)
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := Serve(w, r, link, Options{
			CheckKey:     func() error { return (*l.checkKey.Load())() },
			StoreTimeout: 500 * time.Millisecond,
			Describe:     func(http.Header, *exports.Link) {},
			OnContent:    func(*exports.Link) {},
			NewStream:    func(w http.ResponseWriter) *stream.Writer { return stream.New(w, r, time.Hour) },
		})
		l.results <- err
		if err != nil {
			stream.Abort(w, r)
			panic(http.ErrAbortHandler)
		}
	}))
	l.Config.ConnContext = stream.ConnContext
	l.Start()
	t.Cleanup(l.Close)
	t.Cleanup(func() { is.NoErr(service.Flush(context.Background())) })
	return l
}

// get returns the response when its header has arrived.
func (l *linkServer) get(t *testing.T) *http.Response {
	t.Helper()
	response, err := l.Client().Get(l.URL)
	is.New(t).NoErr(err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func (l *linkServer) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.results:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the response does not end")
		return nil
	}
}

func TestServe_EndsABlockedWriteWithItsKey(t *testing.T) {
	t.Parallel()
	for _, ended := range []error{ErrRevoked, exports.ErrLinkNotFound} {
		is := is.New(t)
		l := newLinkServer(t, func() error { return nil })
		response := l.get(t)               // and nothing of the body
		time.Sleep(500 * time.Millisecond) // the buffers are full
		revoked := func() error { return ended }
		l.checkKey.Store(&revoked)
		is.True(l.result(t) != nil)
		_, err := io.Copy(io.Discard, response.Body)
		is.True(err != nil)
	}
}

func TestServe_WritesNothingAfterRevocation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLinkServer(t, func() error { return ErrRevoked })
	response, err := l.Client().Get(l.URL)
	if err == nil { // unless the header is lost with the connection
		defer response.Body.Close()
		n, err := io.Copy(io.Discard, response.Body)
		is.True(err != nil)
		is.Equal(n, int64(0))
	}
	is.Equal(l.result(t), ErrRevoked)
}

func TestServe_OutlastsAShortOutageOfTheStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var checks atomic.Int64
	l := newLinkServer(t, func() error {
		if n := checks.Add(1); n == 5 || n == 6 { // within StoreTimeout
			return errOutage
		}
		return nil
	})
	n, err := io.Copy(io.Discard, l.get(t).Body)
	is.NoErr(err)
	is.True(n > 60<<20)
	is.NoErr(l.result(t))
}

func TestServe_FailsInALongOutageOfTheStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLinkServer(t, func() error { return nil })
	response := l.get(t)
	outage := func() error { return errOutage }
	l.checkKey.Store(&outage)
	_, err := io.Copy(io.Discard, response.Body)
	is.True(err != nil)
	is.True(errors.Is(l.result(t), errOutage))
}
