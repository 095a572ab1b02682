package fetch_test

import (
	"archive/zip"
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
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// newFetchService returns a service that may fetch the URLs, all of one host. Each URL is
// registered as its own source, unless it is in the store.
func newFetchService(b *testing.B, store exports.Store, urls []string) *exports.Service {
	opener := newOpener(b, fetch.Options{AllowedHosts: []string{parse(b, urls[0]).Host}, OnlyAllowed: true})
	b.Cleanup(opener.CloseIdleConnections)
	return newService(b, store, urls, exports.Options{Openers: []exports.Opener{opener}})
}

func newService(b testing.TB, store exports.Store, urls []string, options exports.Options) *exports.Service {
	service := must(exports.NewService(store, &options))(b)
	for _, u := range urls {
		if _, err := service.Find(b.Context(), u); err == nil {
			continue
		}
		_, _, err := service.Register(b.Context(), exports.Registration{SourceURL: u, ExportedURL: u})
		is.New(b).NoErr(err)
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

func startAPI(b *testing.B, service *exports.Service) string {
	server := httptest.NewServer(newAPI(service))
	b.Cleanup(server.Close)
	return server.URL
}

func newAPI(service *exports.Service) http.Handler {
	return httpapi.Handler(&httpapi.Options{
		Exports: service, DangerouslySkipClientKeys: true, Logger: slog.New(slog.DiscardHandler),
	})
}

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

func itemsOf(sources []string) map[string][]item {
	var list []item
	for _, source := range sources {
		list = append(list, item{source})
	}
	return map[string][]item{"items": list}
}

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

const kiB, miB = 1 << 10, 1 << 20

type batchCase struct {
	files  int
	size   int64
	delay  time.Duration // of the origin before each response
	tagged bool          // files have an ETag
}

func (c batchCase) String() string {
	return fmt.Sprintf("%dx%dKiB/%v_each", c.files, c.size/kiB, c.delay)
}

func (c batchCase) total() int64 { return int64(c.files) * c.size }

// startOrigin starts the origin, and returns the URLs of its files.
func (c batchCase) startOrigin(b *testing.B) []string {
	baseURL := startSizedOrigin(b)
	name := map[bool]string{false: "plain", true: "tagged"}[c.tagged]
	urls := make([]string, c.files)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s/%d/%s/%s-%d.bin", baseURL, c.size, c.delay, name, i)
	}
	return urls
}

// writeSerially is the loop that an application would write without this library.
func writeSerially(ctx context.Context, client *http.Client, w io.Writer, urls []string) error {
	archive := zip.NewWriter(w)
	for _, u := range urls {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: path.Base(u), Method: zip.Store})
		if err != nil {
			return err
		}
		if err := copyURL(ctx, client, entry, u); err != nil {
			return err
		}
	}
	return archive.Close()
}

// copySerially copies files one after the other. No zip of them can be sent faster by
// one request at a time.
func copySerially(ctx context.Context, client *http.Client, w io.Writer, urls []string) error {
	for _, u := range urls {
		if err := copyURL(ctx, client, w, u); err != nil {
			return err
		}
	}
	return nil
}

func copyURL(ctx context.Context, client *http.Client, w io.Writer, u string) error {
	response, err := get(ctx, client, u)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, response.Body)
	return err
}

// compareBatch runs a benchmark that compares a batch over HTTP with a server that writes
// the files with serve.
func compareBatch(b *testing.B, c batchCase, name string, serve func(context.Context, *http.Client, io.Writer, []string) error) {
	b.Run(c.String(), func(b *testing.B) {
		if once() {
			c.files, c.size = min(c.files, 16), min(c.size, 16*miB)
		}
		urls := c.startOrigin(b)
		upstream := newHTTPClient(b)
		baselineURL, _ := startOrigin(b, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/zip")
			if err := serve(r.Context(), upstream, w, urls); err != nil {
				panic(http.ErrAbortHandler)
			}
		})
		batchURL := startAPI(b, newFetchService(b, memory.New().Exports(), urls)) + "/viewer/exports/download-batch"
		client, body := newHTTPClient(b), itemsOf(urls)
		batch := posting(client, batchURL, body)
		must(batch(b.Context()))(b) // what is known from now on is part of the case
		compare(b, name, c.total(), posting(client, baselineURL, body), batch)
	})
}

// BenchmarkBatch compares a batch with a serial loop of http.Get and archive/zip
// without compression.
func BenchmarkBatch(b *testing.B) {
	compareBatch(b, batchCase{files: 100, size: miB}, "serial", writeSerially)
	compareBatch(b, batchCase{files: 4, size: 256 * miB}, "serial", writeSerially)
	compareBatch(b, batchCase{files: 50, size: 100 * kiB, delay: 50 * time.Millisecond}, "serial", writeSerially)
	compareBatch(b, batchCase{files: 1000, size: kiB, delay: 5 * time.Millisecond}, "serial", writeSerially)
}

// BenchmarkBatch_KnownCRCs compares a batch of files whose CRCs are remembered with a
// serial copy of the files without a zip.
func BenchmarkBatch_KnownCRCs(b *testing.B) {
	compareBatch(b, batchCase{files: 100, size: miB, tagged: true}, "copy", copySerially)
	compareBatch(b, batchCase{files: 4, size: 256 * miB, tagged: true}, "copy", copySerially)
}

// BenchmarkBatch_FirstByte compares the time to the first byte of a batch with that of
// its first file. In each round, a new process knows nothing about the host. If the
// files are known, the store has facts about them.
func BenchmarkBatch_FirstByte(b *testing.B) {
	for _, files := range []int{12, 50} {
		for _, known := range []bool{false, true} {
			c := batchCase{files: files, size: 100 * kiB, delay: 50 * time.Millisecond, tagged: known}
			b.Run(fmt.Sprintf("%v/known=%v", c, known), func(b *testing.B) {
				is := is.New(b)
				urls, client := c.startOrigin(b), newHTTPClient(b)
				store := memory.New().Exports()
				var ratios, times []float64
				for b.Loop() {
					first, err := timeToFirstByte(func(w io.Writer) error { return copyURL(b.Context(), client, w, urls[0]) })
					is.NoErr(err)
					service := newFetchService(b, store, urls)
					batchURL := startAPI(b, service) + "/viewer/exports/download-batch"
					ours, err := timeToFirstByte(func(w io.Writer) error { return post(b.Context(), client, batchURL, itemsOf(urls), w) })
					is.NoErr(err)
					is.NoErr(service.Flush(b.Context()))
					times = append(times, ours.Seconds())
					ratios = append(ratios, ours.Seconds()/first.Seconds())
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(times), "s")
				b.ReportMetric(median(ratios), "x/first_file")
			})
		}
	}
}

func timeToFirstByte(download func(io.Writer) error) (time.Duration, error) {
	w := &firstByteWriter{start: time.Now()}
	err := download(w)
	return w.after, err
}

type firstByteWriter struct {
	start time.Time
	after time.Duration
}

func (w *firstByteWriter) Write(p []byte) (int, error) {
	if w.after == 0 {
		w.after = time.Since(w.start)
	}
	return len(p), nil
}

// BenchmarkBatch_Parallel compares 32 batches at a time with one.
func BenchmarkBatch_Parallel(b *testing.B) {
	c := batchCase{files: 50, size: 100 * kiB, delay: 50 * time.Millisecond}
	urls := c.startOrigin(b)
	batchURL := startAPI(b, newFetchService(b, memory.New().Exports(), urls)) + "/viewer/exports/download-batch"
	client, body := newHTTPClient(b), itemsOf(urls)
	download := func(n int) float64 {
		start := time.Now()
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				var received counter
				if err := post(b.Context(), client, batchURL, body, &received); err != nil || int64(received) < c.total() {
					b.Errorf("received %d bytes: %v", received, err)
				}
			})
		}
		all.Wait()
		return time.Since(start).Seconds()
	}
	var one, many, ratios []float64
	for b.Loop() {
		first := download(1)
		all := download(32)
		one, many, ratios = append(one, first), append(many, all), append(ratios, all/first)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(one), "s-one")
	b.ReportMetric(median(many), "s")
	b.ReportMetric(median(ratios), "x/one")
}
