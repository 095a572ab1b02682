package exports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/ziptest"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// hosted is a server with files that a test changes between two batches.
type hosted struct {
	mu    sync.Mutex
	files map[string][]byte // by path; those that end in /chunked are sent without their length
}

func (h *hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	content, ok := h.files[r.URL.Path]
	h.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Last-Modified", time.Unix(1.7e9, 0).UTC().Format(http.TimeFormat))
	if !strings.HasSuffix(r.URL.Path, "/chunked") {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	}
	w.Write(content)
}

// change changes the files whose path a test picks.
func (h *hosted) change(pick func(path string) bool, change func(content []byte) []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, content := range h.files {
		if pick(path) {
			if content = change(content); content == nil {
				delete(h.files, path)
			} else {
				h.files[path] = content
			}
		}
	}
}

// web is a handler in front of files on other servers.
type web struct {
	*hosted
	address string
	sources []string
}

// newWeb hosts so many files, of many sizes, on three servers.
func newWeb(t *testing.T, count int) *web {
	t.Helper()
	w := &web{hosted: &hosted{files: make(map[string][]byte)}}
	var origins, hosts []string
	for range 3 {
		server := httptest.NewServer(w.hosted)
		t.Cleanup(server.Close)
		address, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		origins, hosts = append(origins, server.URL), append(hosts, address.Host)
	}
	opener, err := fetch.New(&fetch.Options{AllowedHosts: hosts, OnlyAllowed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opener.CloseIdleConnections)
	service := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	for i := range count {
		path := fmt.Sprintf("/%d/plan %d.pdf", i, i%7)
		if i%5 == 0 {
			path = fmt.Sprintf("/%d/chunked", i)
		}
		size := 1000 + i*997%30_000
		switch i % 60 {
		case 20, 21: // chunked and not
			size = 1 << 20
		case 40, 41:
			size = 1<<20 + 1 + i
		}
		w.files[path] = noise[i : i+size : i+size]
		source := fmt.Sprintf("https://viewer.example/%d", i)
		if _, _, err := service.Register(t.Context(), source, origins[i%3]+(&url.URL{Path: path}).EscapedPath(), ""); err != nil {
			t.Fatal(err)
		}
		w.sources = append(w.sources, source)
	}
	server := httptest.NewServer(httpapi.Handler(httpapi.Options{
		Exports: service, DangerouslySkipClientKeys: true, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	w.address = server.URL
	return w
}

// answered is the answer to a batch as a client sees it.
type answered struct {
	length int64 // as announced, -1 if it was not
	body   []byte
	err    error
}

// download asks for a batch as a browser does.
func (w *web) download(t *testing.T, sources []string) answered {
	t.Helper()
	type item struct {
		SourceFileURL string `json:"sourceFileUrl"`
	}
	var items struct {
		Items []item `json:"items"`
	}
	for _, source := range sources {
		items.Items = append(items.Items, item{source})
	}
	body, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), "POST", w.address+"/viewer/exports/download-batch", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		t.Fatal(response.Status)
	}
	if chunked := slices.Contains(response.TransferEncoding, "chunked"); chunked != (response.ContentLength < 0) {
		t.Fatalf("chunked is %t at length %d", chunked, response.ContentLength)
	}
	content, err := io.ReadAll(response.Body)
	if err == nil && response.ContentLength >= 0 && int64(len(content)) != response.ContentLength {
		t.Fatalf("%d bytes came, announced were %d", len(content), response.ContentLength)
	}
	return answered{response.ContentLength, content, err}
}

// TestLength_overHTTP downloads 300 files again and again, and changes them
// between.
func TestLength_overHTTP(t *testing.T) {
	t.Parallel()
	const files = 300
	of := func(numbers ...int) func(path string) bool {
		return func(path string) bool {
			n, _, _ := strings.Cut(path[1:], "/")
			i, err := strconv.Atoi(n)
			return err == nil && slices.Contains(numbers, i)
		}
	}
	all := func(string) bool { return true }
	remove := func([]byte) []byte { return nil }
	cut := func(n int) func([]byte) []byte {
		return func(content []byte) []byte { return content[:len(content)-n] }
	}
	grow := func(content []byte) []byte { return append(slices.Clone(content), "more"...) }
	for name, c := range map[string]struct {
		change  func(w *web)
		missing []int
		breaks  bool
		readers bool // take it
	}{
		"unchanged":           {change: func(*web) {}, readers: true},
		"one is gone":         {change: func(w *web) { w.change(of(200), remove) }, missing: []int{200}},
		"some are gone":       {change: func(w *web) { w.change(of(100, 151, 299), remove) }, missing: []int{100, 151, 299}, readers: true},
		"the large are gone":  {change: func(w *web) { w.change(of(161, 220, 280), remove) }, missing: []int{161, 220, 280}},
		"all have shrunk":     {change: func(w *web) { w.change(all, cut(500)) }, readers: true},
		"all have grown":      {change: func(w *web) { w.change(all, grow) }, breaks: true},
		"a chunked has grown": {change: func(w *web) { w.change(of(280), grow) }, breaks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			w := newWeb(t, files)
			sources := append(slices.Clone(w.sources), w.sources[20:40]...) // some of them twice
			first := w.download(t, sources)
			is.NoErr(first.err)
			is.Equal(first.length, int64(-1)) // nothing is known yet
			c.change(w)

			second := w.download(t, sources)
			is.True(second.length > 0) // a browser can show how far it is
			is.Equal(second.err != nil, c.breaks)
			if c.breaks {
				is.True(errors.Is(second.err, io.ErrUnexpectedEOF) || strings.Contains(second.err.Error(), "reset"))
				second = w.download(t, sources) // and now it is as it was
				is.NoErr(second.err)
				is.Equal(second.length, int64(-1))
			}
			names, contents := entries(t, second.body)
			if len(c.missing) == 0 {
				is.Equal(len(names), len(sources))
			} else {
				is.Equal(len(names), len(sources)-len(c.missing)+1)
				is.Equal(names[len(names)-1], "manifest.json")
				for _, i := range c.missing {
					is.True(strings.Contains(contents["manifest.json"], quoted(w.sources[i])))
				}
			}
			w.compare(t, sources, c.missing, names, contents)
			if c.readers {
				ziptest.Read(t, second.body, len(names), names)
			}

			if len(c.missing) == 0 { // all is known again
				third := w.download(t, sources)
				is.NoErr(third.err)
				is.True(third.length > 0)
				_, again := entries(t, third.body)
				is.True(maps.Equal(again, contents))
			}
		})
	}
}

func quoted(text string) string { return `"` + text + `"` }

// compare fails unless each entry has the content that its file has now.
func (w *web) compare(t *testing.T, sources []string, missing []int, names []string, contents map[string]string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	byNumber := make(map[string][]byte)
	for path, content := range w.files {
		n, _, _ := strings.Cut(path[1:], "/")
		byNumber[n] = content
	}
	at := 0
	for _, source := range sources {
		n := source[strings.LastIndexByte(source, '/')+1:]
		if i, _ := strconv.Atoi(n); slices.Contains(missing, i) {
			continue
		}
		if contents[names[at]] != string(byNumber[n]) {
			t.Fatalf("entry %s is not file %s", names[at], n)
		}
		at++
	}
}

// TestLength_tinyFiles: a file that is smaller than the word of its end is not
// counted on, so that it can be left out.
func TestLength_tinyFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := newWeb(t, 60)
	tiny := func(path string) bool { return strings.HasPrefix(path, "/50/") }
	w.change(tiny, func([]byte) []byte { return []byte("tiny") })
	for range 2 {
		got := w.download(t, w.sources)
		is.NoErr(got.err)
		is.Equal(got.length, int64(-1))
	}
	w.change(tiny, func([]byte) []byte { return nil })
	got := w.download(t, w.sources)
	is.NoErr(got.err)
	names, contents := entries(t, got.body)
	is.Equal(len(names), 60)
	w.compare(t, w.sources, []int{50}, names, contents)
}
