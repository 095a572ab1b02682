package fetch_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
)

const kiB, miB = 1 << 10, 1 << 20

// batchCase is a measured batch.
type batchCase struct {
	files  int
	size   int64
	delay  time.Duration // of the origin before each response
	hosts  int           // 1 if zero
	tagged bool          // files have an ETag
}

func (c batchCase) String() string {
	return fmt.Sprintf("%dx%dKiB/%v_each", c.files, c.size/kiB, c.delay)
}

func (c batchCase) total() int64 { return int64(c.files) * c.size }

// startOrigins starts the origins of a batch and returns the URLs of its files.
func (c batchCase) startOrigins(b *testing.B) []string {
	var origins []string
	for range max(c.hosts, 1) {
		origins = append(origins, startSizedOrigin(b))
	}
	name := map[bool]string{false: "plain", true: "tagged"}[c.tagged]
	urls := make([]string, c.files)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s/%d/%s/%s-%d.bin", origins[i%len(origins)], c.size, c.delay, name, i)
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
		urls := c.startOrigins(b)
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
				urls, client := c.startOrigins(b), newHTTPClient(b)
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

// timeToFirstByte returns when download has written its first byte.
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
	urls := c.startOrigins(b)
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
