//go:build unix

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hostileClient uses a valid key to take as much of the program as it can.
type hostileClient struct {
	*worker
	addr    string
	files   string
	bomb    []byte
	results tallies
	links   atomic.Int64 // made by makeLinks
	imports atomic.Int64 // of long names
}

func newHostileClient(s *soak, files string) *hostileClient {
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), "/")
	return &hostileClient{
		worker: &worker{soak: s, random: rand.New(rand.NewPCG(0, 3)), data: make(map[int64]string)},
		addr:   addr,
		files:  files,
		bomb:   zipBomb(),
	}
}

// zipBomb returns a zip of 1.3 MB that expands to 150 MiB. The ratio of both is below
// the limit because of a file that imports ignore.
func zipBomb() []byte {
	var content, packed, out bytes.Buffer
	content.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>`)
	content.Write(bytes.Repeat([]byte("a"), 30<<20))
	content.WriteString(`</text></svg>`)
	compressor, _ := flate.NewWriter(&packed, flate.BestCompression)
	compressor.Write(content.Bytes()) // a Buffer returns no error
	compressor.Close()
	z := zip.NewWriter(&out)
	for i := range 5 {
		w, _ := z.CreateRaw(&zip.FileHeader{
			Name: fmt.Sprint(i, ".svg"), Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(content.Bytes()),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(content.Len()),
		})
		w.Write(packed.Bytes())
	}
	ballast := make([]byte, 1150<<10)
	w, _ := z.CreateRaw(&zip.FileHeader{
		Name: "Thumbs.db", Method: zip.Store, CRC32: crc32.ChecksumIEEE(ballast),
		CompressedSize64: uint64(len(ballast)), UncompressedSize64: uint64(len(ballast)),
	})
	w.Write(ballast)
	z.Close()
	return out.Bytes()
}

// prepare creates a folder, and the exports for all clients.
func (c *hostileClient) prepare() {
	if !c.worker.prepare(honestClients) {
		c.t.Fatal("no folder for the hostile client")
	}
	for directory, files := range map[string]int{"small": smallFiles, "medium": mediumFiles, "large": largeFiles} {
		for i := range files {
			c.register(drawingSource(directory, i), fmt.Sprintf("%s/%s/%d", c.files, directory, i))
		}
	}
	for i := range longURLs {
		c.register(drawingSource("long", i), c.files+"/large/0?"+strings.Repeat("u", 8000))
	}
	for i := range largeSymbols {
		size := 8 << 20
		if i < 2 {
			size = 45 << 20
		}
		data := `{"name":"large","type":"text/plain","data":"` + strings.Repeat("d", size) + `"}`
		if symbol, ok := decode[record](c.sendClient("prepare", "POST", c.symbolsPath(), data, 201), 201); ok {
			c.ids = append(c.ids, symbol.ID)
		}
	}
}

func (c *hostileClient) register(source, exportedURL string) {
	c.sendClient("prepare", "POST", "/viewer/exports/register", registration(source, exportedURL), 201)
}

// Numbers of the records of the hostile client.
const (
	longURLs     = 200
	largeSymbols = 12
)

// attack starts the attacks whose digits kinds has. They end with ctx.
func (c *hostileClient) attack(ctx context.Context, kinds string) *sync.WaitGroup {
	large := drawingSource("large", 0)
	missing := batch(append(slices.Repeat([]string{strings.Repeat("&", 4000)}, 999), large)...)
	empty := `{"items":[` + strings.Repeat("{},", 1<<20) + `{}]}`

	attacks := []struct {
		kind    string
		clients int
		run     func(conn *net.TCPConn) (result string, stalled bool)
	}{
		{"1 import", 4, c.importBomb},
		{"2 unfinished body", 12, c.sendPart},
		{"3 stalled download", 300, c.stall("/viewer/exports/download", single(large))},
		{"4 stalled batch", 200, c.stall("/viewer/exports/download-batch", drawings("small", smallFiles))},
		{"5 stalled zip", 1000, c.stall("/viewer/exports/download-batch", drawings("large", 2))},
		{"6 unread URLs", 32, c.stall("/viewer/exports/download-batch?responseType=urls", drawings("long", longURLs))},
		{"7 large symbol", 32, c.stallSymbol},
		{"8 long manifest", 8, c.stall("/viewer/exports/download-batch", missing)},
		{"8 empty items", 8, c.stall("/viewer/exports/links", empty)},
		{"9 no waiting", 32, c.stall("/viewer/exports/download", single(large))},
		{"a stalled link", 32, c.stallLink},
		{"b many links", 4, c.makeLinks},
		{"c long names", 4, c.searchLongNames},
		{"d uploads at once", 2, c.upload},
		{"e wrong keys", 4, c.wrongKeys},
		{"f no waiting, kept", 16, c.noWaiting},
	}
	running := new(sync.WaitGroup)
	for _, attack := range attacks {
		if !strings.Contains(kinds, attack.kind[:1]) {
			continue
		}
		for range attack.clients {
			running.Go(func() { c.repeat(ctx, attack.kind, attack.run) })
		}
	}
	return running
}

// rejected returns how many requests have been rejected.
func (c *hostileClient) rejected() int {
	results := c.results.merged("").results
	return results["429"] + results["503"]
}

// repeat runs one client of an attack again and again. A client that the program has
// rejected waits for one to five seconds: more requests would be another attack.
func (c *hostileClient) repeat(ctx context.Context, kind string, run func(*net.TCPConn) (string, bool)) {
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(rand.N(200 * time.Millisecond))
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", c.addr, time.Minute)
		if err != nil {
			c.results.add(kind, "no connection", 0)
			wait(time.Second)
			continue
		}
		tcp := conn.(*net.TCPConn)
		tcp.SetReadBuffer(4 << 10)
		tcp.SetLinger(0) // no TIME_WAIT, of which there would be too many
		closed := context.AfterFunc(ctx, func() { conn.Close() })
		start := time.Now()
		result, stalled := run(tcp)
		if ctx.Err() == nil || stalled {
			c.results.add(kind, result, time.Since(start))
		}
		if stalled {
			wait(time.Minute + 5*time.Second) // the program has given up
		}
		closed()
		conn.Close()
		if (result == "429" || result == "503") && kind[0] != '9' {
			wait(time.Second + rand.N(4*time.Second))
		}
	}
}

// request writes the header of a request.
func (c *hostileClient) request(conn net.Conn, path, contentType string, length int) {
	fmt.Fprintf(conn, "POST /api%s HTTP/1.1\r\nHost: hostile\r\nX-Api-Key: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		path, c.key, contentType, length)
}

// status reads the header of a response.
func status(conn net.Conn) string {
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return "no response"
	}
	return fmt.Sprint(response.StatusCode)
}

func (c *hostileClient) importPath() string {
	return fmt.Sprint("/symbol/folders/", c.folder, "/import?dryRun=true")
}

func (c *hostileClient) importBomb(conn *net.TCPConn) (string, bool) {
	c.request(conn, c.importPath(), "application/zip", len(c.bomb))
	conn.Write(c.bomb)
	return status(conn), false
}

// sendPart sends most of a body, and then nothing.
func (c *hostileClient) sendPart(conn *net.TCPConn) (string, bool) {
	c.request(conn, c.symbolsPath(), "application/json", 50<<20)
	part := bytes.Repeat([]byte(" "), 1<<20)
	for range 48 {
		if _, err := conn.Write(part); err != nil {
			break
		}
	}
	return status(conn), false
}

// stall returns an attack that reads the header of a download and nothing else.
func (c *hostileClient) stall(path, body string) func(*net.TCPConn) (string, bool) {
	return func(conn *net.TCPConn) (string, bool) {
		c.request(conn, path, "application/json", len(body))
		io.WriteString(conn, body)
		result := status(conn)
		return result, result == "200"
	}
}

// stallSymbol changes nothing of a large symbol, or gets it, and does not read it.
func (c *hostileClient) stallSymbol(conn *net.TCPConn) (string, bool) {
	method, body := "GET", ""
	if rand.IntN(2) == 0 {
		method, body = "PATCH", "{}"
	}
	fmt.Fprintf(conn, "%s /api/symbol/symbols/%d HTTP/1.1\r\nHost: hostile\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		method, c.ids[rand.IntN(len(c.ids))], c.key, len(body), body)
	result := status(conn)
	return result, result == "200"
}

// drawings returns the body of a batch of n drawings.
func drawings(directory string, n int) string {
	var sources []string
	for i := range n {
		sources = append(sources, drawingSource(directory, i))
	}
	return batch(sources...)
}
