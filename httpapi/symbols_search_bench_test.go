package httpapi_test

import (
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

// BenchmarkSearch reports latencies of 8 clients that search 100,000 symbols, one
// search at a time each, alone and while another process changes 20 symbols a
// second.
func BenchmarkSearch(b *testing.B) {
	for name, open := range map[string]func(*testing.B) benchDB{"sqlite": benchSQLite, "postgres": benchPostgres} {
		b.Run(name, func(b *testing.B) {
			const count, folders = 100_000, 20
			store := open(b).symbols
			words := strings.Fields("gate globe valve pump check motor sensor relay filter tank Ventil Ärmel pipe heat exchanger")
			random := rand.New(rand.NewPCG(1, 1))
			writer := symbols.NewService(store, nil)
			for i := range folders {
				folder, err := writer.CreateFolder(b.Context(), fmt.Sprint("search ", i))
				if err != nil {
					b.Fatal(err)
				}
				for range count / folders / 1000 {
					var given []symbols.NewSymbol
					for j := range 1000 {
						name := fmt.Sprintf("%s %s %d", words[random.IntN(len(words))], words[random.IntN(len(words))], j)
						given = append(given, symbols.NewSymbol{Name: name, Type: "image/svg+xml", Data: strings.Repeat("<path d='M0 0'/>", 64)})
					}
					if _, err := writer.CreateSymbols(b.Context(), folder.ID, given); err != nil {
						b.Fatal(err)
					}
				}
			}
			server := httptest.NewServer(httpapi.Handler(httpapi.Options{
				Symbols: symbols.NewService(store, nil), DangerouslySkipClientKeys: true,
			}))
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
			search := func(text string) time.Duration {
				start := time.Now()
				response, err := client.Get(server.URL + "/symbol/search?q=" + url.QueryEscape(text))
				if err != nil {
					b.Error(err)
					return 0
				}
				defer response.Body.Close()
				io.Copy(io.Discard, response.Body)
				if response.StatusCode != 200 {
					b.Error(response.Status)
				}
				return time.Since(start)
			}
			b.Logf("%s: the first search takes %v", name, search("first"))
			for _, writes := range []bool{false, true} {
				b.Run(fmt.Sprint("writes=", writes), func(b *testing.B) {
					for b.Loop() {
						var (
							mu        sync.Mutex
							latencies []time.Duration
							wg        sync.WaitGroup
						)
						end := time.Now().Add(5 * time.Second)
						for i := range 8 {
							random := rand.New(rand.NewPCG(uint64(i), 2))
							wg.Go(func() {
								for time.Now().Before(end) {
									text := words[random.IntN(len(words))]
									switch random.IntN(3) {
									case 0:
										text += fmt.Sprint(" ", random.IntN(1000)) // few
									case 1:
										text += "?" // none
									}
									latency := search(strings.ToUpper(text))
									mu.Lock()
									latencies = append(latencies, latency)
									mu.Unlock()
								}
							})
						}
						if writes {
							wg.Go(func() {
								for i := 0; time.Now().Before(end); i++ {
									id := 1000 + rand.Int64N(count/2)
									if _, err := writer.UpdateSymbol(b.Context(), id, symbols.SymbolFields{Name: new(fmt.Sprint("changed ", i))}); err != nil {
										b.Error(err)
									}
									time.Sleep(50 * time.Millisecond)
								}
							})
						}
						wg.Wait()
						slices.Sort(latencies)
						b.ReportMetric(float64(len(latencies))/5, "searches/s")
						b.ReportMetric(latencies[len(latencies)/2].Seconds()*1000, "ms-p50")
						b.ReportMetric(latencies[len(latencies)*99/100].Seconds()*1000, "ms-p99")
					}
				})
			}
		})
	}
}
