package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"
)

// unreliableNetwork passes the responses to GET requests for links. It stops each
// after a number of bytes, until the test ends it.
type unreliableNetwork struct {
	handler http.Handler
	limits  []int64 // of the responses in order; later ones are complete

	mu       sync.Mutex
	uri      string // of the last request
	requests []http.Header
	statuses []int
	stopped  chan struct{} // receives one element for each stopped response
	cut      chan struct{} // ends a stopped response
}

func (n *unreliableNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/links/") {
		n.handler.ServeHTTP(w, r)
		return
	}
	n.mu.Lock()
	limit := int64(1 << 62)
	if i := len(n.requests); i < len(n.limits) {
		limit = n.limits[i]
	}
	n.uri, n.requests = r.RequestURI, append(n.requests, r.Header.Clone())
	n.mu.Unlock()
	n.handler.ServeHTTP(&unreliableWriter{w, n, r.Context().Done(), limit}, r)
}

type unreliableWriter struct {
	http.ResponseWriter
	network *unreliableNetwork
	closed  <-chan struct{} // when the browser has closed the connection
	left    int64
}

func (w *unreliableWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *unreliableWriter) WriteHeader(status int) {
	w.network.mu.Lock()
	w.network.statuses = append(w.network.statuses, status)
	w.network.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *unreliableWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left >= 0 {
		return w.ResponseWriter.Write(p)
	}
	w.ResponseWriter.(http.Flusher).Flush()
	w.network.stopped <- struct{}{}
	select {
	case <-w.network.cut:
	case <-w.closed:
	}
	return 0, errors.New("connection lost")
}

// TestLinks_BrowserPausesAndResumes pauses a download in the browser's list and
// loses its connection, then loses another one.
func TestLinks_BrowserPausesAndResumes(t *testing.T) {
	s := newSite(t)
	network := &unreliableNetwork{
		handler: s.handler(), limits: []int64{3 << 20, 3 << 20}, stopped: make(chan struct{}, 9), cut: make(chan struct{}),
	}
	s.listen(network)
	random := rand.NewChaCha8([32]byte{})
	var names []string
	for _, name := range []string{"a", "b"} {
		content := make([]byte, 5<<20)
		random.Read(content)
		s.RegisterExport(t, sourceURL(name), name+".bin", string(content))
		names = append(names, sourceURL(name))
	}
	b := browser.openTab(t, s.url+"#/exports") // the headless shell has no list of downloads
	b.enterClientKey(s)
	b.fill("Sources", strings.Join(names, "\n"))
	b.click("Download 2 files as a zip")

	list := openDownloads(b)
	network.waitStopped(t)
	list.choose("Pause")
	network.cut <- struct{}{} // the browser notices when it resumes
	list.wait(`button("Resume")`)
	for request := 2; request <= 3; request++ {
		list.waitFor(func() bool {
			eval[any](list, `button("Resume")?.click()`)
			time.Sleep(100 * time.Millisecond)
			return len(network.received()) >= request
		}, "the browser to resume the download")
		if request == 2 {
			network.waitStopped(t)
			network.cut <- struct{}{}
		}
	}
	content := b.downloaded("canvas-exports.zip")
	requests := network.received()
	s.is.Equal(len(requests), 3)
	tag := requests[1].Get("If-Range")
	s.is.True(strings.HasPrefix(tag, `"`))
	s.is.Equal(requests[2].Get("If-Range"), tag)
	s.is.Equal(network.statuses, []int{200, 206, 206})

	response, err := http.Get(s.server.URL + network.uri)
	s.is.NoErr(err)
	defer response.Body.Close()
	want, err := io.ReadAll(response.Body)
	s.is.NoErr(err)
	s.is.True(bytes.Equal(content, want))
}

// received returns the headers of the requests for links.
func (n *unreliableNetwork) received() []http.Header {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests
}

func (n *unreliableNetwork) waitStopped(t *testing.T) {
	t.Helper()
	select {
	case <-n.stopped:
	case <-time.After(timeout):
		t.Fatal("the browser sends no request")
	}
}

// openDownloads opens the browser's list of downloads in another tab.
func openDownloads(b *tab) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	list := &tab{t: b.t, ctx: ctx}
	is.New(b.t).NoErr(chromedp.Do(ctx))
	list.visit("chrome://downloads")
	eval[bool](list, `(window.button = (text) => {
		const item = document.querySelector("downloads-manager")?.shadowRoot.querySelector("downloads-item")?.shadowRoot;
		return [...item?.querySelectorAll("#action-buttons *, .dropdown-item") ?? []].find((one) => !one.hidden && one.innerText.trim() === text);
	}, true)`)
	return list
}

// choose chooses an action on the only download.
func (b *tab) choose(action string) {
	b.t.Helper()
	b.wait(`button(` + quote(action) + `)`)
	eval[any](b, `button(`+quote(action)+`).click()`)
}
