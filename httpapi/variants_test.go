package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// get sends a GET with the client key and other headers, given as pairs.
func (h *harness) get(path string, headers ...string) response {
	h.t.Helper()
	return h.send("GET", path, "", append([]string{"x-api-key", h.rawKey}, headers...)...)
}

// variantPaths are paths of representations of two folders and their symbols.
func variantPaths() []string {
	var paths []string
	for _, page := range []string{"", "limit=2&x=1", "after=3", "limit=1&after=4"} {
		paths = append(paths, "/symbol/folders?"+page)
		for _, fields := range []string{"", "fields=id,name", "fields=size,id", "fields=id,name,type,data,folderId"} {
			for folder := 1; folder <= 2; folder++ {
				paths = append(paths, fmt.Sprintf("/symbol/folders/%d/symbols?%s&%s", folder, page, fields))
			}
		}
	}
	for _, id := range []string{"1", "2", "5"} {
		paths = append(paths, "/symbol/symbols/"+id, "/symbol/symbols/"+id+"/image")
	}
	return append(paths, "/symbol/folders/1", searchPath)
}

// searchPath is the only one of variantPaths without an ETag.
const searchPath = "/symbol/search?q=n&limit=5&fields=id,name,size"

// shown is what an ETag stands for.
func (r response) shown() string {
	return fmt.Sprint(r.header.Get("Content-Type"), r.header.Get("Content-Disposition"), r.header.Get("Link"), string(r.body))
}

// contents has what each ETag of each path stands for.
type contents struct {
	mu   sync.Mutex
	seen map[string]string
}

// check records a response, and fails the test if its ETag has stood for another
// content.
func (c *contents) check(t testing.TB, path string, got response) {
	t.Helper()
	tag := got.header.Get("ETag")
	if len(tag) < 3 || tag[0] != '"' {
		t.Fatalf("%s: ETag %q is not strong", path, tag)
	}
	content := got.header.Get("Content-Encoding") + got.shown()
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.seen[path+tag]; ok && before != content {
		t.Errorf("%s: ETag %s stands for %.300s and %.300s", path, tag, before, content)
	}
	c.seen[path+tag] = content
}

// onTwoProcesses runs a test with each of symbolStores. Of the three APIs two are
// like processes with caches, and one has no cache.
func onTwoProcesses(t *testing.T, test func(t *testing.T, both []*harness, uncached *harness)) {
	for name, open := range symbolStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connect := open(t, 4)
			on := func(cache int64) *harness {
				service := must(symbols.NewService(connect(), &symbols.Options{PageSize: 3000}))(t)
				return serve(t, func(o *httpapi.Options) { o.Symbols, o.Limits.ListCache = service, cache })
			}
			both, uncached := []*harness{on(0), on(200_000)}, on(-1)
			for i := range 4 {
				createFolder(t, uncached.options.Symbols, fmt.Sprint(i), 3, 700)
			}
			test(t, both, uncached)
		})
	}
}

// changeSymbols makes a random change, of any kind. Symbols up to 14 are not deleted.
func changeSymbols(random *rand.Rand, h *harness) {
	folder, symbol := 1+random.IntN(4), 1+random.IntN(8)
	data := strings.Repeat(string(rune('a'+random.IntN(4))), 1+random.IntN(1200))
	if random.IntN(2) == 0 {
		data = svgImage + "<!--" + data + "-->"
	}
	data = quote(data)
	switch random.IntN(8) {
	case 0, 1:
		h.client("POST", fmt.Sprintf("/symbol/folders/%d/symbols", folder), `{"name":"n","type":"a/b","data":`+data+`}`)
	case 2:
		h.client("PATCH", fmt.Sprintf("/symbol/symbols/%d", symbol), `{"data":`+data+`}`)
	case 3:
		h.client("PATCH", fmt.Sprintf("/symbol/symbols/%d", symbol), fmt.Sprintf(`{"name":"n%d","type":"a/b"}`, random.IntN(2)))
	case 4:
		h.client("PATCH", fmt.Sprintf("/symbol/symbols/%d", symbol), fmt.Sprintf(`{"folderId":%d}`, folder))
	case 5:
		h.client("DELETE", fmt.Sprintf("/symbol/symbols/%d", 15+random.IntN(20)), "")
	case 6:
		h.client("PATCH", fmt.Sprintf("/symbol/folders/%d", folder), fmt.Sprintf(`{"name":"%d"}`, random.IntN(6)))
	case 7:
		h.client("POST", "/symbol/folders", fmt.Sprintf(`{"name":"%s%d"}`, strings.Repeat("f", 200), random.Int()))
	}
}

// TestVariants_TagsMatchContent compares every variant before and after random
// changes, in two processes, with what a process without a cache shows.
func TestVariants_TagsMatchContent(t *testing.T) {
	t.Parallel()
	onTwoProcesses(t, func(t *testing.T, both []*harness, uncached *harness) {
		random := rand.New(rand.NewPCG(1, 2))
		all := &contents{seen: make(map[string]string)}
		tags := make(map[string]string) // the latest of each path and encoding
		for round := range testflag.Rounds(4, 10, 10) {
			h := both[round%2]
			for _, path := range variantPaths() {
				want := uncached.get(path)
				for _, encoding := range []string{"identity", "gzip"} {
					key := path + " " + encoding
					got := h.get(path, "Accept-Encoding", encoding).want(want.status)
					if want.status == 404 { // no image
						h.get(path, "If-None-Match", "*").want(404)
						continue
					}
					if got.shown() != want.shown() {
						t.Fatalf("%s is %.300s, want %.300s", path, got.shown(), want.shown())
					}
					isImage := strings.HasSuffix(path, "/image")
					if zipped := got.header.Get("Content-Encoding") == "gzip"; zipped != (encoding == "gzip" && len(got.body) >= 1024 && !isImage) {
						t.Fatalf("%s with %s: compressed is %v for %d bytes", path, encoding, zipped, len(got.body))
					}
					if path == searchPath {
						continue
					}
					all.check(t, path, got)
					previous, current := tags[key], got.header.Get("ETag")
					tags[key] = current
					if previous == "" {
						continue
					}
					conditional := h.get(path, "If-None-Match", previous, "Accept-Encoding", []string{"identity", "gzip"}[random.IntN(2)])
					if (conditional.status == 304) != (previous == current) {
						t.Fatalf("%s: %d for %s, current is %s", path, conditional.status, previous, current)
					}
					if conditional.status == 304 && conditional.header.Get("ETag") != previous {
						t.Fatalf("%s: 304 carries %s, want %s", path, conditional.header.Get("ETag"), previous)
					}
					if vary := conditional.header.Get("Vary"); (vary == "Accept-Encoding") == isImage {
						t.Fatalf("%s: %d has Vary %q", path, conditional.status, vary)
					}
				}
			}
			changeSymbols(random, both[random.IntN(2)])
		}
	})
}

// TestVariants_AreCurrentUnderConcurrentWrites reads variants in two processes while
// both change symbols. Each change is in the next response of the other process,
// and no tag stands for two contents.
func TestVariants_AreCurrentUnderConcurrentWrites(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	onTwoProcesses(t, func(t *testing.T, both []*harness, uncached *harness) {
		all := &contents{seen: make(map[string]string)}
		done := make(chan struct{})
		var writers, readers sync.WaitGroup
		var lists, own [2]string // of one writer each
		for i := range both {
			folder := uncached.client("POST", "/symbol/folders", fmt.Sprintf(`{"name":"own %d"}`, i)).want(201).object()["id"]
			lists[i] = fmt.Sprintf("/symbol/folders/%v/symbols", folder)
			symbol := uncached.client("POST", lists[i], `{"name":"x","type":"a/b","data":"`+strings.Repeat("y", 1200)+`"}`).want(201).object()["id"]
			own[i] = fmt.Sprintf("/symbol/symbols/%v", symbol)
		}
		for i, h := range both {
			other, list, symbol := both[1-i], lists[i], own[i]
			random := rand.New(rand.NewPCG(uint64(i), 3))
			writers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					changeSymbols(random, h)
					name := fmt.Sprintf("own %d %d.", i, n)
					h.client("PATCH", symbol, `{"name":`+quote(name)+`}`).want(200)
					for _, path := range []string{symbol, list, list + "?fields=name", list + "?limit=1", "/symbol/search?q=" + url.QueryEscape(name)} {
						for _, encoding := range []string{"identity", "gzip"} {
							if got := other.get(path, "Accept-Encoding", encoding).want(200); !strings.Contains(string(got.body), name) {
								t.Errorf("%s lacks %q: %.300s", path, name, got.body)
							}
						}
					}
				}
			})
			for range 2 {
				readers.Go(func() {
					for _, path := range variantPaths() {
						for _, encoding := range []string{"identity", "gzip"} {
							got := h.get(path, "Accept-Encoding", encoding)
							if got.status == 200 && path != searchPath {
								all.check(t, path, got)
							}
						}
					}
				})
			}
		}
		readers.Wait()
		close(done)
		writers.Wait()
	})
}

func TestPaging_VisitsEachRecordOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for i := range 7 {
		h.client("POST", "/symbol/folders", fmt.Sprintf(`{"name":"%d"}`, i)).want(201)
		h.client("POST", "/symbol/folders/1/symbols", fmt.Sprintf(`{"name":"s%d","type":"a/b","data":"%s"}`, i, strings.Repeat("d", 600))).want(201)
	}
	for _, path := range []string{"/symbol/folders", "/symbol/folders/1/symbols", "/symbol/folders/1/symbols?fields=id"} {
		all := h.client("GET", path, "").want(200).array()
		for _, limit := range []int{1, 2, 6, 7, 8, 1000} {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			next := fmt.Sprintf("%s%slimit=%d", path, separator, limit)
			var got []any
			for requests := 0; next != ""; requests++ {
				page := h.client("GET", next, "").want(200)
				is.True(len(page.array()) <= limit && requests < 8)
				got = append(got, page.array()...)
				link := page.header.Get("Link")
				next = ""
				if link != "" {
					reference, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
					is.True(ok)
					path, _, _ := strings.Cut(path, "?")
					next = path + reference
				}
			}
			is.Equal(got, all)
		}
	}
	is.Equal(len(h.client("GET", "/symbol/folders/1/symbols?after=5", "").want(200).array()), 2)
	is.Equal(len(h.client("GET", "/symbol/folders?after=9223372036854775807", "").want(200).array()), 0)
	// the key comes first, then the query, then existence
	h.send("GET", "/symbol/folders?limit=0", "").wantError(401, "unauthorized")
	for _, query := range []string{"limit=0", "limit=1001", "limit=01", "limit=+1", "limit=", "limit", "limit=1&limit=1", "after=-1", "after=x", "after=1&after=2", "after=9223372036854775808", "limit=%zz", "fields=", "fields=id,id", "fields=ID", "fields=id,", "fields=id&fields=name", "fields=id%20"} {
		name, _, _ := strings.Cut(query, "=")
		h.client("GET", "/symbol/folders/99/symbols?"+query, "").wantInvalid(name + " ")
	}
	h.client("GET", "/symbol/folders?limit=0", "").wantError(400, "invalid_request")
	h.client("GET", "/symbol/folders/99/symbols?limit=1", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders?fields=nonsense&x=%25", "").want(200) // ignored
}

func TestCompression_AcceptEncoding(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for header, want := range map[string]bool{
		"gzip": true, "GZip": true, "x-gzip": true, "*": true, "br, gzip;q=0.001": true, "gzip; q=1.000": true, "gzip;Q=0.5": true,
		"deflate, *;q=0.1": true, "identity;q=0.5, gzip;q=0.5": true, "identity;q=0, gzip;q=0.1": true, "br;q=1,gzip;q=0.2": true,
		"": false, "identity": false, "gzip;q=0": false, "gzip;q=0.000": false, "*;q=0": false, "identity, gzip;q=0.9": false,
		"*;q=1, gzip;q=0": false, "br": false, "gzip;q=2": false, "gzip;q=a": false, "gzipped": false, "gzip;x=1": false,
	} {
		got := h.send("GET", "/openapi.json", "", "Accept-Encoding", header).want(200)
		t.Log(header)
		is.New(t).Equal(got.header.Get("Content-Encoding") == "gzip", want)
	}
}

func TestCompression_LongLists(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h, _, service := serveSymbols(t, 0)
	folder := must(service.CreateFolder(t.Context(), "A"))(t)
	random := rand.NewChaCha8([32]byte{1})
	for i := range 8 {
		data := make([]byte, 600<<10)
		random.Read(data) // returns no error
		for i, b := range data {
			data[i] = ' ' + b%90
		}
		must(service.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: fmt.Sprint(i), Type: "text/plain", Data: string(data)}))(t)
	}
	for _, query := range []string{"", "?limit=7", "?limit=7&fields=data,size"} {
		plain := h.get("/symbol/folders/1/symbols" + query).want(200)
		for range 2 {
			zipped := h.get("/symbol/folders/1/symbols"+query, "Accept-Encoding", "gzip").want(200)
			zipped.wantHeaders("Content-Encoding", "gzip")
			is.True(string(zipped.body) == string(plain.body))
			zipped.wantHeaders("Link", plain.header.Get("Link"))
			is.True(zipped.header.Get("ETag") != plain.header.Get("ETag"))
			h.get("/symbol/folders/1/symbols"+query, "If-None-Match", "W/"+zipped.header.Get("ETag")).want(304)
		}
		is.Equal(len(plain.array()), map[bool]int{true: 8, false: 7}[query == ""])
		is.Equal(plain.header.Get("Link") != "", query != "")
	}
}

// TestVariants_LongSymbol has symbols that are compressed in pieces. The second is longer
// than a cached body even if it is compressed.
func TestVariants_LongSymbol(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t)
	content := make([]byte, 4<<20+100<<10)
	rand.NewChaCha8([32]byte{}).Read(content) // returns no error
	for i, data := range []string{strings.Repeat("0123456789abcdef", 17<<16), base64.StdEncoding.EncodeToString(content)} {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"`+data+`"}`).want(201)
		path := fmt.Sprint("/symbol/symbols/", i+1)
		plain := h.get(path).want(200)
		for range 2 {
			zipped := h.get(path, "Accept-Encoding", "gzip").want(200)
			zipped.wantHeaders("Content-Encoding", "gzip")
			is.True(zipped.header.Get("Content-Length") != "")
			is.True(string(zipped.body) == string(plain.body))
			etag := zipped.header.Get("ETag")
			is.Equal(etag, strings.TrimSuffix(plain.header.Get("ETag"), `"`)+`.gz"`)
			h.get(path, "If-None-Match", etag).want(304).wantHeaders("ETag", etag)
		}
	}
}
