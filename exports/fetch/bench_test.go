package fetch_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// download is one measured operation. It returns the number of bytes received.
type download func(ctx context.Context) (int64, error)

// once reports whether -benchtime is 1x, which shows only that a benchmark works.
func once() bool { return flag.Lookup("test.benchtime").Value.String() == "1x" }

// compare reports the median speedup over a baseline. It runs both alternately,
// for at least three seconds and four rounds, so that load on the machine affects
// both. Each side goes first in every other round.
func compare(b *testing.B, name string, size int64, baseline, ours download) {
	b.Helper()
	comparePrepared(b, func() {}, name, size, baseline, ours)
}

// comparePrepared is compare with a step before each operation that is not measured.
func comparePrepared(b *testing.B, prepare func(), name string, size int64, baseline, ours download) {
	b.Helper()
	measure := func(f download) float64 {
		prepare()
		runtime.GC() // so that neither side collects the garbage of the other
		start := time.Now()
		n, err := f(b.Context())
		seconds := time.Since(start).Seconds()
		if err != nil {
			b.Fatal(err)
		}
		if n < size {
			b.Fatalf("received %d of %d bytes", n, size)
		}
		return seconds
	}
	var baselineTimes, ourTimes, ratios []float64
	for b.Loop() {
		start := time.Now()
		for round := 0; round == 0 || !once() && (round < 4 || time.Since(start) < 3*time.Second); round++ {
			var base, own float64
			if round%2 == 0 {
				base = measure(baseline)
				own = measure(ours)
			} else {
				own = measure(ours)
				base = measure(baseline)
			}
			baselineTimes, ourTimes = append(baselineTimes, base), append(ourTimes, own)
			ratios = append(ratios, base/own)
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of both sides is meaningless
	b.ReportMetric(median(ratios), "x-"+name)
	b.ReportMetric(median(ourTimes), "s")
	b.ReportMetric(median(baselineTimes), "s-"+name)
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// startSizedOrigin starts an origin that serves /SIZE/DELAY/NAME from memory. If the
// name begins with "tagged", the file has an ETag.
func startSizedOrigin(b *testing.B) (baseURL string) {
	block := randomBytes(3, 256<<10)
	baseURL, _ = startOrigin(b, func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		size, errSize := strconv.Atoi(parts[1])
		delay, errDelay := time.ParseDuration(parts[2])
		if err := errors.Join(errSize, errDelay); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(delay)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		if strings.HasPrefix(parts[3], "tagged") {
			w.Header().Set("ETag", `"1"`)
		}
		for size > 0 {
			n, err := w.Write(block[:min(size, len(block))])
			if err != nil {
				return
			}
			size -= n
		}
	})
	return baseURL
}

// newFetchService returns a service that may fetch the URLs. Each URL is
// registered as its own source, unless it is in the store.
func newFetchService(b *testing.B, store exports.Store, urls []string) *exports.Service {
	var hosts []string
	for _, u := range urls {
		if host := parse(b, u).Host; !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	opener := newOpener(b, fetch.Options{AllowedHosts: hosts, OnlyAllowed: true})
	b.Cleanup(opener.CloseIdleConnections)
	return newService(b, store, urls, exports.Options{Openers: []exports.Opener{opener}})
}

func newService(b testing.TB, store exports.Store, urls []string, options exports.Options) *exports.Service {
	is := is.New(b)
	service := must(exports.NewService(store, &options))(b)
	for _, u := range urls {
		if _, err := service.Find(b.Context(), u); err == nil {
			continue
		}
		_, _, err := service.Register(b.Context(), exports.Registration{SourceURL: u, ExportedURL: u})
		is.NoErr(err)
	}
	return service
}

// newHTTPClient returns a client like http.DefaultClient with its own connections.
func newHTTPClient(b *testing.B) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(ctx context.Context, client *http.Client, u string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// proxyHandler is what an application would write for a single file.
func proxyHandler(client *http.Client, u string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		response, err := get(r.Context(), client, u)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		for _, name := range []string{"Content-Type", "Content-Length"} {
			if value := response.Header.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		w.Header().Set("Content-Disposition", "attachment")
		w.WriteHeader(response.StatusCode)
		if _, err := io.Copy(w, response.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// startAPI starts a server with the API and returns its URL.
func startAPI(b *testing.B, service *exports.Service) string {
	server := httptest.NewServer(httpapi.Handler(&httpapi.Options{
		Exports:                   service,
		DangerouslySkipClientKeys: true,
		Logger:                    slog.New(slog.DiscardHandler),
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// post sends a request and copies the response body to w.
func post(ctx context.Context, client *http.Client, u string, body any, w io.Writer) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u, strings.NewReader(string(content)))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.CopyBuffer(w, response.Body, make([]byte, 256<<10))
	return err
}

// posting returns a download that posts a body.
func posting(client *http.Client, u string, body any) download {
	return func(ctx context.Context) (int64, error) {
		var n counter
		err := post(ctx, client, u, body, &n)
		return int64(n), err
	}
}

type item struct {
	Source string `json:"sourceFileUrl"`
}

type items struct {
	Items []item `json:"items"`
}

func itemsOf(sources []string) items {
	var body items
	for _, source := range sources {
		body.Items = append(body.Items, item{source})
	}
	return body
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkFile compares a single file over HTTP with the least code without this
// library: a proxy with io.Copy, and http.ServeContent.
func BenchmarkFile(b *testing.B) {
	size := 256 << 20
	if once() {
		size >>= 4
	}
	compareWith := func(b *testing.B, name, baselineURL, apiURL, source string) {
		client := newHTTPClient(b)
		ours := posting(client, apiURL+"/viewer/exports/download", item{source})
		compare(b, name, int64(size), posting(client, baselineURL, item{source}), ours)
	}
	b.Run("256MiB/fetched", func(b *testing.B) {
		u := fmt.Sprintf("%s/%d/0s/plan.bin", startSizedOrigin(b), size)
		baselineURL, _ := startOrigin(b, proxyHandler(newHTTPClient(b), u))
		compareWith(b, "proxy", baselineURL, startAPI(b, newFetchService(b, memory.New().Exports(), []string{u})), u)
	})
	b.Run("256MiB/from_disk", func(b *testing.B) {
		is := is.New(b)
		const u = "https://files.example/plan.bin"
		name := filepath.Join(b.TempDir(), "plan.bin")
		is.NoErr(os.WriteFile(name, randomBytes(4, size), 0o600))
		baselineURL, _ := startOrigin(b, func(w http.ResponseWriter, r *http.Request) {
			file, err := os.Open(name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer file.Close()
			http.ServeContent(w, r, "plan.bin", time.Time{}, file)
		})
		root := must(os.OpenRoot(filepath.Dir(name)))(b)
		b.Cleanup(func() { root.Close() })
		opener := must(files.New(u[:strings.LastIndexByte(u, '/')], root.FS()))(b)
		compareWith(b, "ServeContent", baselineURL, startAPI(b, newService(b, memory.New().Exports(), []string{u}, exports.Options{Openers: []exports.Opener{opener}})), u)
	})
}

// throttledWriter accepts a limited number of bytes per second.
type throttledWriter struct {
	counter
	perSecond int64
	start     time.Time
}

func (w *throttledWriter) Write(p []byte) (int, error) {
	if w.start.IsZero() {
		w.start = time.Now()
	}
	n, err := w.counter.Write(p)
	due := time.Duration(float64(w.counter) / float64(w.perSecond) * float64(time.Second))
	time.Sleep(due - time.Since(w.start))
	return n, err
}

// liveHeap returns the size of all reachable heap objects in MiB.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkHeap reports the peak memory of a batch with a slow client, while
// everything allowed is prefetched. It includes the memory of the origins and of
// the client, which are in the same process.
func BenchmarkHeap(b *testing.B) {
	for _, hosts := range []int{1, 3} {
		c, enough := batchCase{files: 1000, size: 1 << 20, hosts: hosts}, 50
		if once() {
			c.files, enough = 100, 1
		}
		b.Run(fmt.Sprintf("1000x1MiB/slow_client/hosts=%d", hosts), func(b *testing.B) {
			urls := c.startOrigins(b)
			apiURL := startAPI(b, newFetchService(b, memory.New().Exports(), urls))
			client, body := newHTTPClient(b), itemsOf(urls)
			var peak float64
			for b.Loop() {
				liveHeap() // pools release their objects after two collections
				idle := liveHeap()
				ended := make(chan error, 1)
				receiver := &throttledWriter{perSecond: 200 << 20}
				go func() { ended <- post(b.Context(), client, apiURL+"/viewer/exports/download-batch", body, receiver) }()
				samples := 0
				for done := false; !done; {
					select {
					case err := <-ended:
						if done = true; err != nil || int64(receiver.counter) < c.total() {
							b.Fatalf("received %d bytes: %v", receiver.counter, err)
						}
					case <-time.After(20 * time.Millisecond):
						samples++
						peak = max(peak, liveHeap()-idle)
					}
				}
				if samples < enough {
					b.Logf("%d samples are few for a peak", samples)
				}
			}
			b.ReportMetric(0, "ns/op") // set by the client
			b.ReportMetric(peak, "MiB-peak")
		})
	}
}
