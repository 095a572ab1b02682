package httpapi_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/symbols"
)

var searchWords = strings.Fields("gate globe valve pump check motor sensor relay filter tank Ventil Ärmel pipe heat exchanger")

var searchSymbols = flag.Int("symbols", 100_000, "number of symbols of BenchmarkSearch")

// fillSearch creates symbols in folders of 5,000.
func fillSearch(b *testing.B, service *symbols.Service) {
	random := rand.New(rand.NewPCG(1, 1))
	word := func() string { return searchWords[random.IntN(len(searchWords))] }
	folders := *searchSymbols / 5000
	if testing.Short() {
		folders = 1
	}
	for i := range folders {
		folder := must(service.CreateFolder(b.Context(), fmt.Sprint("search ", i)))(b)
		for range 5 {
			given := make([]symbols.NewSymbol, 1000)
			for j := range given {
				given[j] = symbols.NewSymbol{
					Name: fmt.Sprintf("%s %s %d", word(), word(), j), Type: "image/svg+xml",
					Data: strings.Repeat("<path d='M0 0'/>", 64),
				}
			}
			must(service.CreateSymbols(b.Context(), folder.ID, given))(b)
		}
	}
}

// searchPathOf returns a search with many, few or no results.
func searchPathOf(random *rand.Rand) string {
	text := searchWords[random.IntN(len(searchWords))]
	switch random.IntN(3) {
	case 0:
		text += fmt.Sprint(" ", random.IntN(1000)) // few
	case 1:
		text += "?" // none
	}
	return "/symbol/search?q=" + url.QueryEscape(strings.ToUpper(text))
}

// latencies returns those of 8 clients, which send one request at a time each for
// some seconds, in ascending order.
func latencies(b *testing.B, handler http.Handler, path func(*rand.Rand) string) []time.Duration {
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var (
		mu  sync.Mutex
		all []time.Duration
		wg  sync.WaitGroup
	)
	duration := 4 * time.Second
	if testing.Short() {
		duration /= 20
	}
	end := time.Now().Add(duration)
	for i := range 8 {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() {
			for time.Now().Before(end) {
				start := time.Now()
				response, err := client.Get(server.URL + path(random))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != 200 {
					b.Error(response.Status)
				}
				latency := time.Since(start)
				mu.Lock()
				all = append(all, latency)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}

// BenchmarkSearch reports latencies of searches among many symbols (5,000 with -short),
// alone and while another process changes 20 symbols a second, and their relation to
// those of a handler that reads one symbol by its id. Both alternate, so that other load
// affects both alike.
func BenchmarkSearch(b *testing.B) {
	for name, open := range map[string]func(*testing.B) benchDB{"memory": benchMemory, "sqlite": benchSQLite, "postgres": benchPostgres} {
		b.Run(name, func(b *testing.B) {
			db := open(b)
			writer := must(symbols.NewService(db.symbols, nil))(b)
			fillSearch(b, writer)
			api := httpapi.Handler(&httpapi.Options{Symbols: must(symbols.NewService(db.symbols, nil))(b), DangerouslySkipClientKeys: true})
			bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				name, _, _, err := db.get(r.Context(), 1+rand.Int64N(benchSymbols))
				if err != nil {
					b.Error(err)
				}
				io.WriteString(w, name)
			})
			start := time.Now()
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/symbol/search?q=first", nil))
			b.Logf("%s: the first search takes %v", name, time.Since(start))
			for _, writes := range []bool{false, true} {
				b.Run(fmt.Sprint("writes=", writes), func(b *testing.B) {
					stop := make(chan struct{})
					var changes sync.WaitGroup
					if writes {
						changes.Go(func() { changeNames(b, writer, stop) })
					}
					var found, read []time.Duration
					for b.Loop() {
						read = append(read, latencies(b, bare, func(*rand.Rand) string { return "/" })...)
						found = append(found, latencies(b, api, searchPathOf)...)
					}
					close(stop)
					changes.Wait()
					slices.Sort(found)
					slices.Sort(read)
					for name, percent := range map[string]int{"p50": 50, "p99": 99} {
						of := func(list []time.Duration) float64 { return list[len(list)*percent/100].Seconds() * 1000 }
						b.ReportMetric(of(found), "ms-"+name)
						b.ReportMetric(of(found)/of(read), "x-read-"+name)
					}
				})
			}
		})
	}
}

// changeNames changes 20 names a second.
func changeNames(b *testing.B, service *symbols.Service, stop <-chan struct{}) {
	ids := int64(*searchSymbols / 2)
	if testing.Short() {
		ids = 4_000
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		id := 1000 + rand.Int64N(ids)
		if _, err := service.UpdateSymbol(b.Context(), id, symbols.SymbolFields{Name: new(fmt.Sprint("changed ", i))}, symbols.Any); err != nil {
			b.Error(err)
		}
	}
}
