package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// drawing returns about size bytes of SVG.
func drawing(random *rand.Rand, size int) string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">`)
	for b.Len() < size {
		fmt.Fprintf(&b, `<path d="M%d %dL%d %d" stroke="#000" stroke-width="2" fill="none"/>`,
			random.IntN(100), random.IntN(100), random.IntN(100), random.IntN(100))
	}
	return b.String() + `</svg>`
}

// bitmap returns a drawing of size x size pixels as PNG.
func bitmap(random *rand.Rand, size int) []byte {
	canvas := image.NewRGBA(image.Rect(0, 0, size, size))
	for range 20 {
		x, y, width := random.IntN(size), random.IntN(size), random.IntN(size/2)
		shade := color.RGBA{uint8(random.IntN(256)), uint8(random.IntN(256)), 0, 255}
		for i := range width {
			canvas.Set(x+i, y+i/2, shade)
			canvas.Set(x+i, y, shade)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, canvas); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// BenchmarkVariants compares variants of responses on SQLite. It alternates, so that
// other load affects both alike, and compares the fastest rounds. The metric
// x-as-fast is the rate of the first relative to the second.
func BenchmarkVariants(b *testing.B) {
	for name, store := range map[string]symbols.Store{"sqlite": benchSQLite(b).symbols, "memory": memory.New().Symbols()} {
		b.Run(name, func(b *testing.B) { benchVariants(b, store) })
	}
}

func benchVariants(b *testing.B, store symbols.Store) {
	service := symbols.NewService(store, nil)
	random := rand.New(rand.NewPCG(1, 2))
	first := int64(0) // id of the first folder below
	folder := func(name string, count int, data func() string) int64 {
		folder, err := service.CreateFolder(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if first == 0 {
			first = folder.ID
		}
		given := make([]symbols.NewSymbol, count)
		for i := range given {
			given[i] = symbols.NewSymbol{Name: fmt.Sprint("Gate valve ", i), Type: "image/svg+xml", Data: data()}
		}
		created, err := service.CreateSymbols(b.Context(), folder.ID, given)
		if err != nil {
			b.Fatal(err)
		}
		return created[0].ID
	}
	wrap := func(mimeType string, content []byte) string {
		return `{"name":"n","type":"` + mimeType + `","content":"` + base64.StdEncoding.EncodeToString(content) + `","width":64,"height":64}`
	}
	folder("svg", 50, func() string { return drawing(random, 4<<10) })
	folder("png", 50, func() string { return wrap("image/png", bitmap(random, 180)) })
	folder("large", 2000, func() string { return drawing(random, 3300) })
	folder("wrapped", 50, func() string { return wrap("image/svg+xml", []byte(drawing(random, 3<<10))) })
	small := folder("small", 1, func() string { return wrap("image/png", bitmap(random, 180)) })
	noise := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("0123456789abcdef"), 100<<6)...) // 100 KB
	big := folder("big", 1, func() string { return wrap("image/png", noise) })
	api := httpapi.Handler(httpapi.Options{Symbols: service, DangerouslySkipClientKeys: true})
	bare := func(path string) http.Handler {
		client := newBenchClient(b, 1, api, "GET", path, "")
		_, _, body := client.once()
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body)
		})
	}
	type target struct {
		handler http.Handler
		path    string
		headers []string
	}
	gzipped := []string{"Accept-Encoding", "gzip"}
	list := func(folder int64, query string, headers ...string) target {
		return target{api, fmt.Sprintf("/symbol/folders/%d/symbols%s", first+folder, query), headers}
	}
	images := func(id int64) string { return fmt.Sprintf("/symbol/symbols/%d/image", id) }
	for _, c := range []struct {
		name   string
		a, b   target
		status int
	}{
		{"gzip of SVG to plain", list(0, "", gzipped...), list(0, ""), 200},
		{"gzip of wrapped SVG to plain", list(3, "", gzipped...), list(3, ""), 200},
		{"gzip of wrapped PNG to plain", list(1, "", gzipped...), list(1, ""), 200},
		{"fields of 2,000 to all", list(2, "?fields=id,name,type"), list(2, ""), 200},
		{"image to bare handler", target{api, images(small), nil}, target{bare(images(small)), "/", nil}, 200},
		{"image of 100 KB to bare handler", target{api, images(big), nil}, target{bare(images(big)), "/", nil}, 200},
		{"304 of image to 304 of list", target{api, images(small), []string{"If-None-Match", "*"}}, list(4, "", "If-None-Match", "*"), 304},
	} {
		b.Run(c.name, func(b *testing.B) {
			var clients [2]*benchClient
			var sizes [2]int
			for i, t := range []target{c.a, c.b} {
				clients[i] = newBenchClient(b, 4, t.handler, "GET", t.path, "", t.headers...)
				_, _, body := clients[i].once()
				sizes[i] = len(body)
			}
			fastest := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for round := range 30 {
					i := round % 2
					clients[i].spent = 0
					clients[i].call(max(20, 40_000_000/(sizes[i]+20_000)/20), c.status)
					fastest[i] = min(fastest[i], clients[i].spent/time.Duration(max(20, 40_000_000/(sizes[i]+20_000)/20)))
				}
			}
			b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "x-as-fast")
			b.ReportMetric(float64(sizes[0]), "bytes")
			b.ReportMetric(float64(sizes[0])/float64(max(sizes[1], 1)), "x-bytes")
		})
	}
}

// once sends the request and returns the response.
func (c *benchClient) once() (status int, header http.Header, body []byte) {
	conn := c.conns[0]
	if _, err := conn.Write(c.request); err != nil {
		c.b.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.b.Fatal(err)
	}
	body, err = io.ReadAll(response.Body)
	if err != nil {
		c.b.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}
