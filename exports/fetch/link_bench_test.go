package fetch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/storage/memory"
)

// repeatedContent is a file of size bytes that repeats a block.
type repeatedContent struct {
	block []byte
	size  int64
}

func (c repeatedContent) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], c.block[(offset+int64(n))%int64(len(c.block)):])
	}
	return n, nil
}

// startTaggedOrigin starts an origin that serves /SIZE/NAME with an ETag, also in
// ranges, and counts the bytes of responses unless sent is nil. It returns the URLs of files.
func startTaggedOrigin(tb testing.TB, files int, size int64, sent *atomic.Int64) (urls []string, host string) {
	block := randomBytes(5, 256<<10)
	baseURL, host := startOrigin(tb, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if sent != nil {
			w = &countingResponse{w, sent}
		}
		http.ServeContent(w, r, "x.bin", time.Time{}, io.NewSectionReader(repeatedContent{block, size}, 0, size))
	})
	for i := range files {
		urls = append(urls, fmt.Sprintf("%s/%d/%d.bin", baseURL, size, i))
	}
	return urls, host
}

type countingResponse struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (w *countingResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent.Add(int64(n))
	return n, err
}

// linkServer serves an API that can be replaced by one of a new process.
type linkServer struct {
	tb      testing.TB
	url     string
	opener  exports.Opener
	handler atomic.Pointer[http.Handler]
}

func startLinkServer(tb testing.TB, host string) *linkServer {
	opener := newOpener(tb, fetch.Options{AllowedHosts: []string{host}, OnlyAllowed: true})
	tb.Cleanup(opener.CloseIdleConnections)
	s := &linkServer{tb: tb, opener: opener}
	s.url, _ = startOrigin(tb, func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) })
	return s
}

// restart forgets everything and registers the URLs as their own sources.
func (s *linkServer) restart(urls []string) {
	service := newService(s.tb, memory.New().Exports(), urls, exports.Options{Openers: []exports.Opener{s.opener}, LinkRequests: 64, LinkServed: 1 << 30})
	handler := newAPI(service)
	s.handler.Store(&handler)
}

func (s *linkServer) createLink(urls []string) (linkURL string, size int64) {
	s.tb.Helper()
	content := must(json.Marshal(itemsOf(urls)))(s.tb)
	response := must(http.Post(s.url+"/viewer/exports/links", "application/json", bytes.NewReader(content)))(s.tb)
	defer response.Body.Close()
	var link struct {
		URL       string
		Size      int64
		Resumable bool
	}
	if err := json.NewDecoder(response.Body).Decode(&link); err != nil || !link.Resumable {
		s.tb.Fatalf("link is %+v: %v", link, err)
	}
	return s.url + "/viewer/exports/" + link.URL, link.Size
}

// BenchmarkLink compares a complete download by a link with one by POST, after the
// link has been made.
func BenchmarkLink(b *testing.B) {
	for _, c := range []struct {
		files int
		size  int64
	}{{100, 1 << 20}, {4, 256 << 20}} {
		if once() {
			c.size = min(c.size, 8<<20)
		}
		for _, known := range []bool{false, true} {
			facts := map[bool]string{false: "nothing_known", true: "facts_known"}[known]
			b.Run(fmt.Sprintf("%dx%dMiB/%s", c.files, c.size>>20, facts), func(b *testing.B) {
				urls, host := startTaggedOrigin(b, c.files, c.size, nil)
				s, client := startLinkServer(b, host), newHTTPClient(b)
				s.restart(urls)
				var linkURL string
				prepare := func() {
					if !known {
						s.restart(urls)
					}
					linkURL, _ = s.createLink(urls)
				}
				byPOST := posting(client, s.url+"/viewer/exports/download-batch", itemsOf(urls))
				byLink := func(ctx context.Context) (int64, error) {
					response, err := get(ctx, client, linkURL)
					if err != nil {
						return 0, err
					}
					defer response.Body.Close()
					return io.CopyBuffer(struct{ io.Writer }{io.Discard}, response.Body, make([]byte, 256<<10))
				}
				if known {
					must(byPOST(b.Context()))(b)
				}
				comparePrepared(b, prepare, "POST", int64(c.files)*c.size, byPOST, byLink)
			})
		}
	}
}

func getRange(tb testing.TB, client *http.Client, linkURL string, offset, length int64) *http.Response {
	tb.Helper()
	request := must(http.NewRequestWithContext(tb.Context(), http.MethodGet, linkURL, nil))(tb)
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	response := must(client.Do(request))(tb)
	if response.StatusCode != http.StatusPartialContent {
		tb.Fatal(response.Status)
	}
	return response
}

// BenchmarkLink_Ranges reports how many bytes the origin sends for each byte that parallel
// ranges of a zip deliver, about whose files nothing is known but their size.
func BenchmarkLink_Ranges(b *testing.B) {
	for _, c := range []struct {
		ranges int64
		files  int
		size   int64
	}{{8, 100, 1 << 20}, {64, 16, 256 << 10}} {
		b.Run(fmt.Sprintf("%d/%dx%dKiB", c.ranges, c.files, c.size>>10), func(b *testing.B) {
			var sent atomic.Int64
			urls, host := startTaggedOrigin(b, c.files, c.size, &sent)
			s, client := startLinkServer(b, host), newHTTPClient(b)
			var delivered int64
			for b.Loop() {
				s.restart(urls)
				linkURL, size := s.createLink(urls)
				delivered += size
				var ranges sync.WaitGroup
				for i := range c.ranges {
					ranges.Go(func() {
						start, end := size*i/c.ranges, size*(i+1)/c.ranges
						response := getRange(b, client, linkURL, start, end-start)
						defer response.Body.Close()
						if n, _ := io.Copy(io.Discard, response.Body); n != end-start {
							b.Errorf("received %d of %d bytes", n, end-start)
						}
					})
				}
				ranges.Wait()
			}
			b.ReportMetric(float64(sent.Load())/float64(delivered), "x-delivered")
		})
	}
}
