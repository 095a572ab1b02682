package fetch_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
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
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// download is something to be measured; it returns how many bytes came.
type download func(ctx context.Context) (int64, error)

// contest runs a baseline and ours in turn, for some seconds and four rounds at
// least, so that both have the same neighbours, and reports the median of how
// many times as fast ours was. Of two rounds each side is first once.
func contest(b *testing.B, name string, size int64, baseline, ours download) {
	b.Helper()
	measure := func(f download) float64 {
		runtime.GC() // what one side has left is not for the other to clear
		start := time.Now()
		n, err := f(b.Context())
		seconds := time.Since(start).Seconds()
		if err != nil {
			b.Fatal(err)
		}
		if n < size {
			b.Fatalf("%d bytes came of %d", n, size)
		}
		return seconds
	}
	var theirTimes, ourTimes, ratios []float64
	for b.Loop() {
		start := time.Now()
		for round := 0; round < 4 || time.Since(start) < 3*time.Second; round++ {
			var theirs, own float64
			if round%2 == 0 {
				theirs = measure(baseline)
				own = measure(ours)
			} else {
				own = measure(ours)
				theirs = measure(baseline)
			}
			theirTimes, ourTimes = append(theirTimes, theirs), append(ourTimes, own)
			ratios = append(ratios, theirs/own)
		}
	}
	megabytes := float64(size) / 1e6
	b.ReportMetric(0, "ns/op") // of both together it says nothing
	b.ReportMetric(median(ratios), "x-"+name)
	b.ReportMetric(megabytes/median(ourTimes), "MB/s")
	b.ReportMetric(megabytes/median(theirTimes), "MB/s-"+name)
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// origin serves /SIZE/DELAY/NAME from memory and returns its address.
func origin(b *testing.B) string {
	block := noise(3, 256<<10)
	address, _ := serve(b, func(w http.ResponseWriter, r *http.Request) {
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
		for size > 0 {
			n, err := w.Write(block[:min(size, len(block))])
			if err != nil {
				return
			}
			size -= n
		}
	})
	return address
}

// course is a batch to be measured.
type course struct {
	name   string
	files  int
	size   int64
	delay  time.Duration // of the origin, for each file
	hosts  int
	ofHost int // so many ahead; 0 for the default
}

func (c course) total() int64 { return int64(c.files) * c.size }

// addresses starts the origins of a batch.
func (c course) addresses(b *testing.B) []string {
	var origins []string
	for range c.hosts {
		origins = append(origins, origin(b))
	}
	list := make([]string, c.files)
	for i := range list {
		list[i] = fmt.Sprintf("%s/%d/%s/%d.bin", origins[i%len(origins)], c.size, c.delay, i)
	}
	return list
}

// register returns a service in which each address is its own source, and may
// be fetched.
func register(b *testing.B, addresses []string, options exports.Options) *exports.Service {
	var hosts []string
	for _, address := range addresses {
		if host := parse(b, address).Host; !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	opener := newOpener(b, fetch.Options{AllowedHosts: hosts, OnlyAllowed: true})
	b.Cleanup(opener.CloseIdleConnections)
	options.Openers = []exports.Opener{opener}
	return registerWith(b, addresses, options)
}

func registerWith(b *testing.B, addresses []string, options exports.Options) *exports.Service {
	service := exports.NewService(memory.New().Exports(), &options)
	for _, address := range addresses {
		if _, _, err := service.Register(b.Context(), address, address, ""); err != nil {
			b.Fatal(err)
		}
	}
	return service
}

// newHTTPClient is like http.DefaultClient, with connections of its own.
func newHTTPClient(b *testing.B) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// serial is the loop that a host would write without this library.
func serial(ctx context.Context, client *http.Client, w io.Writer, addresses []string) error {
	archive := zip.NewWriter(w)
	for _, address := range addresses {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: path.Base(address), Method: zip.Store})
		if err != nil {
			return err
		}
		response, err := get(ctx, client, address)
		if err != nil {
			return err
		}
		_, err = io.Copy(entry, response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

func get(ctx context.Context, client *http.Client, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// proxy is the handler that a host would write for a single file.
func proxy(client *http.Client, address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		response, err := get(r.Context(), client, address)
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

// batchOf writes a batch without a server in front.
func batchOf(ctx context.Context, service *exports.Service, w io.Writer, sources []string) error {
	items, err := service.FindBatch(ctx, sources)
	if err != nil {
		return err
	}
	batch, err := service.OpenBatch(ctx, items)
	if err != nil {
		return err
	}
	defer batch.Close()
	if err := batch.WriteZip(w, nil); err != nil {
		return err
	}
	if skipped := batch.Skipped(); len(skipped) > 0 {
		return fmt.Errorf("skipped: %v", skipped)
	}
	return nil
}

// mount serves the API.
func mount(b *testing.B, service *exports.Service) string {
	server := httptest.NewServer(httpapi.Handler(httpapi.Options{
		Exports:                   service,
		DangerouslySkipClientKeys: true,
		Logger:                    slog.New(slog.DiscardHandler),
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// post sends a request and hands the answer to w.
func post(ctx context.Context, client *http.Client, address string, body any, w io.Writer) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(string(content)))
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

// counter counts what it is given.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkBatch compares a batch with a serial loop of http.Get and
// archive/zip without compression: into a sink, and over HTTP to a client.
func BenchmarkBatch(b *testing.B) {
	const KiB, MiB = 1 << 10, 1 << 20
	for _, c := range []course{
		{"100x1MiB", 100, MiB, 0, 1, 0},
		{"4x256MiB", 4, 256 * MiB, 0, 1, 0},
		{"50x100KiB/50ms_each/1_host", 50, 100 * KiB, 50 * time.Millisecond, 1, 0},
		{"50x100KiB/50ms_each/1_host_16_ahead", 50, 100 * KiB, 50 * time.Millisecond, 1, 16},
		{"50x100KiB/50ms_each/3_hosts", 50, 100 * KiB, 50 * time.Millisecond, 3, 0},
		{"1000x1KiB/5ms_each/1_host", 1000, KiB, 5 * time.Millisecond, 1, 0},
		{"1000x1KiB/5ms_each/1_host_16_ahead", 1000, KiB, 5 * time.Millisecond, 1, 16},
		{"1000x1KiB/5ms_each/3_hosts", 1000, KiB, 5 * time.Millisecond, 3, 0},
	} {
		b.Run(c.name+"/to_sink", func(b *testing.B) {
			addresses := c.addresses(b)
			service, client := register(b, addresses, exports.Options{PrefetchPerHost: c.ofHost}), newHTTPClient(b)
			contest(b, "serial", c.total(), func(ctx context.Context) (int64, error) {
				var n counter
				err := serial(ctx, client, &n, addresses)
				return int64(n), err
			}, func(ctx context.Context) (int64, error) {
				var n counter
				err := batchOf(ctx, service, &n, addresses)
				return int64(n), err
			})
		})
		b.Run(c.name+"/over_HTTP", func(b *testing.B) {
			addresses := c.addresses(b)
			upstream := newHTTPClient(b)
			theirs, _ := serve(b, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/zip")
				if err := serial(r.Context(), upstream, w, addresses); err != nil {
					panic(http.ErrAbortHandler)
				}
			})
			ours := mount(b, register(b, addresses, exports.Options{PrefetchPerHost: c.ofHost}))
			client, body := newHTTPClient(b), itemsOf(addresses)
			contest(b, "serial", c.total(), func(ctx context.Context) (int64, error) {
				var n counter
				err := post(ctx, client, theirs, body, &n)
				return int64(n), err
			}, func(ctx context.Context) (int64, error) {
				var n counter
				err := post(ctx, client, ours+"/viewer/exports/download-batch", body, &n)
				return int64(n), err
			})
		})
	}
}

// BenchmarkFile compares a single file over HTTP with the few lines that would
// do without this library: a proxy with io.Copy, and http.ServeContent.
func BenchmarkFile(b *testing.B) {
	const size = 256 << 20
	against := func(b *testing.B, name, theirs, ours, source string) {
		client := newHTTPClient(b)
		contest(b, name, size, func(ctx context.Context) (int64, error) {
			var n counter
			err := post(ctx, client, theirs, item{source}, &n)
			return int64(n), err
		}, func(ctx context.Context) (int64, error) {
			var n counter
			err := post(ctx, client, ours+"/viewer/exports/download", item{source}, &n)
			return int64(n), err
		})
	}
	b.Run("256MiB/fetched", func(b *testing.B) {
		address := fmt.Sprintf("%s/%d/0s/plan.bin", origin(b), size)
		theirs, _ := serve(b, proxy(newHTTPClient(b), address))
		against(b, "proxy", theirs, mount(b, register(b, []string{address}, exports.Options{})), address)
	})
	b.Run("256MiB/from_disk", func(b *testing.B) {
		const address = "https://files.example/plan.bin"
		name := filepath.Join(b.TempDir(), "plan.bin")
		if err := os.WriteFile(name, noise(4, size), 0o600); err != nil {
			b.Fatal(err)
		}
		theirs, _ := serve(b, func(w http.ResponseWriter, r *http.Request) {
			file, err := os.Open(name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer file.Close()
			http.ServeContent(w, r, "plan.bin", time.Time{}, file)
		})
		root, err := os.OpenRoot(filepath.Dir(name))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { root.Close() })
		opener, err := files.New(address[:strings.LastIndexByte(address, '/')], root.FS())
		if err != nil {
			b.Fatal(err)
		}
		against(b, "ServeContent", theirs, mount(b, registerWith(b, []string{address}, exports.Options{Openers: []exports.Opener{opener}})), address)
	})
}

// slow takes so many bytes in a second at most.
type slow struct {
	counter
	perSecond int64
	start     time.Time
}

func (s *slow) Write(p []byte) (int, error) {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	n, err := s.counter.Write(p)
	due := time.Duration(float64(s.counter) / float64(s.perSecond) * float64(time.Second))
	time.Sleep(due - time.Since(s.start))
	return n, err
}

// liveHeap is what the heap holds beside garbage, in MiB.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkHeap tells how much memory a batch takes at most while its client
// is slow, so that as much as may be is read ahead. The memory of the origins
// and of the client, who are in the same process, counts too.
func BenchmarkHeap(b *testing.B) {
	for _, hosts := range []int{1, 3} {
		c := course{"1000x1MiB/slow_client/1_host", 1000, 1 << 20, 0, hosts, 0}
		if hosts > 1 {
			c.name = fmt.Sprintf("1000x1MiB/slow_client/%d_hosts", hosts)
		}
		b.Run(c.name, func(b *testing.B) {
			addresses := c.addresses(b)
			address := mount(b, register(b, addresses, exports.Options{}))
			client, body := newHTTPClient(b), itemsOf(addresses)
			var most float64
			for b.Loop() {
				liveHeap() // pools keep what they have for one collection
				idle := liveHeap()
				ended := make(chan error, 1)
				reader := &slow{perSecond: 200 << 20}
				go func() { ended <- post(b.Context(), client, address+"/viewer/exports/download-batch", body, reader) }()
				samples := 0
				for done := false; !done; {
					select {
					case err := <-ended:
						if done = true; err != nil || int64(reader.counter) < c.total() {
							b.Fatalf("%d bytes came: %v", reader.counter, err)
						}
					case <-time.After(20 * time.Millisecond):
						samples++
						most = max(most, liveHeap()-idle)
					}
				}
				if samples < 50 {
					b.Fatalf("%d samples do not make a peak", samples)
				}
			}
			b.ReportMetric(0, "ns/op") // the client's pace
			b.ReportMetric(most, "MiB-peak")
		})
	}
}
