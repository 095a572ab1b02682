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
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

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

// variantBench has a handler of all folders that its method folder creates.
type variantBench struct {
	b       *testing.B
	service *symbols.Service
	handler http.Handler
}

// benchOnStores runs a benchmark on SQLite, on PostgreSQL and in memory.
func benchOnStores(b *testing.B, run func(variantBench)) {
	for _, storage := range []struct {
		name string
		open func(*testing.B) symbols.Store
	}{
		{"sqlite", func(b *testing.B) symbols.Store { return benchSQLite(b).symbols }},
		{"postgres", func(b *testing.B) symbols.Store { return benchPostgres(b).symbols }},
		{"memory", func(*testing.B) symbols.Store { return memory.New().Symbols() }},
	} {
		b.Run(storage.name, func(b *testing.B) {
			service := must(symbols.NewService(storage.open(b), nil))
			run(variantBench{b, service, httpapi.Handler(&httpapi.Options{Symbols: service, DangerouslySkipClientKeys: true})})
		})
	}
}

// folder creates a folder of symbols. It returns the path of their list, and that
// of the image of the first.
func (v variantBench) folder(name string, count int, data func() string) (list, image string) {
	is := is.New(v.b)
	folder, err := v.service.CreateFolder(v.b.Context(), name)
	is.NoErr(err)
	given := make([]symbols.NewSymbol, count)
	for i := range given {
		given[i] = symbols.NewSymbol{Name: fmt.Sprint("Gate valve ", i), Type: "image/svg+xml", Data: data()}
	}
	created, err := v.service.CreateSymbols(v.b.Context(), folder.ID, given)
	is.NoErr(err)
	return fmt.Sprintf("/symbol/folders/%d/symbols", folder.ID), fmt.Sprintf("/symbol/symbols/%d/image", created[0].ID)
}

// target is a request and the status of its response.
type target struct {
	handler http.Handler
	path    string
	status  int
	headers []string
}

func (v variantBench) get(path string, headers ...string) target {
	return target{v.handler, path, 200, headers}
}

// bare returns a handler that writes the bytes that a path shows.
func (v variantBench) bare(path string) target {
	body := newBenchClient(v.b, 1, v.handler, "GET", path, "").once()
	return target{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
	}), "/", 200, nil}
}

// compare alternates between two requests, so that other load affects both alike,
// and compares the fastest rounds. The metric x-as-fast is the rate of the first
// relative to the second.
func (v variantBench) compare(name string, first, second target) {
	v.b.Run(name, func(b *testing.B) {
		const clients = 4
		var (
			targets = []target{first, second}
			all     [2]*benchClient
			times   [2]int // requests of a client in a round
			bytes   [2]float64
		)
		for i, t := range targets {
			all[i] = newBenchClient(b, clients, t.handler, "GET", t.path, "", t.headers...)
			size := len(all[i].once())
			bytes[i] = float64(size)
			times[i] = max(2, 2_000_000/(size+20_000))
		}
		fastest := [2]float64{math.Inf(1), math.Inf(1)} // µs per request
		rounds := 40
		if testing.Short() {
			rounds = 2
		}
		for b.Loop() {
			for round := range rounds {
				i := round % 2
				all[i].spent = 0
				all[i].call(times[i], targets[i].status)
				fastest[i] = min(fastest[i], float64(all[i].spent.Microseconds())/float64(times[i]*clients))
			}
		}
		b.ReportMetric(fastest[1]/fastest[0], "x-as-fast")
		b.ReportMetric(fastest[0], "us/request")
		b.ReportMetric(bytes[0], "bytes")
		b.ReportMetric(bytes[0]/max(bytes[1], 1), "x-bytes")
	})
}

// wrapImage returns the data that viewers write for an image.
func wrapImage(mimeType string, content []byte) string {
	return `{"name":"n","type":"` + mimeType + `","content":"` + base64.StdEncoding.EncodeToString(content) + `","width":64,"height":64}`
}

// BenchmarkVariants compares variants of a list.
func BenchmarkVariants(b *testing.B) {
	benchOnStores(b, func(v variantBench) {
		random := rand.New(rand.NewPCG(1, 2))
		for name, data := range map[string]func() string{
			"SVG":                func() string { return drawing(random, 4<<10) },
			"wrapped SVG":        func() string { return wrapImage("image/svg+xml", []byte(drawing(random, 3<<10))) },
			"PNG of 180 px":      func() string { return wrapImage("image/png", bitmap(random, 180)) },
			"PNG of 32 px":       func() string { return wrapImage("image/png", bitmap(random, 32)) },
			"one PNG, 50 copies": func() string { return wrapImage("image/png", bitmap(rand.New(rand.NewPCG(3, 4)), 180)) },
		} {
			list, _ := v.folder(name, 50, data)
			v.compare("gzip of "+name+" to plain", v.get(list, "Accept-Encoding", "gzip"), v.get(list))
		}
		long, _ := v.folder("long", 2000, func() string { return drawing(random, 3300) })
		v.compare("fields of 2,000 to all", v.get(long+"?fields=id,name,type"), v.get(long))
	})
}

// BenchmarkImages compares images with a handler that only writes their bytes.
func BenchmarkImages(b *testing.B) {
	benchOnStores(b, func(v variantBench) {
		random := rand.New(rand.NewPCG(1, 2))
		var list, image string
		for _, kib := range []int{1, 10, 100, 1000} {
			noise := make([]byte, kib<<10)
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			list, image = v.folder(fmt.Sprint(kib), 1, func() string {
				return wrapImage("image/png", append([]byte("\x89PNG\r\n\x1a\n"), noise...))
			})
			v.compare(fmt.Sprintf("%d KiB to bare handler", kib), v.get(image), v.bare(image))
		}
		conditional := func(path string) target { return target{v.handler, path, 304, []string{"If-None-Match", "*"}} }
		v.compare("304 to 304 of list", conditional(image), conditional(list))
	})
}

// once sends the request and returns the body of the response.
func (c *benchClient) once() []byte {
	is := is.New(c.b)
	conn := c.conns[0]
	_, err := conn.Write(c.request)
	is.NoErr(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	is.NoErr(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	is.NoErr(err)
	return body
}
