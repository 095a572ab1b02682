//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// honestClient is a viewer that browses symbols and downloads drawings.
type honestClient struct {
	*worker
	number  int
	phase   string
	symbols string // path of a folder's symbols
	tag     string // of the list of symbols
	link    string // path of a link
	size    int64  // of what the link delivers
	ranges  int    // that were requested of the link
}

func newHonestClient(h *hostileTest, number int) *honestClient {
	random := rand.New(rand.NewPCG(uint64(number), 2))
	return &honestClient{
		worker: &worker{soak: h.soak, random: random, data: make(map[int64]string)},
		number: number,
	}
}

// Numbers of the files of each size.
const (
	smallFiles  = 50
	mediumFiles = 4
	largeFiles  = 2 // for the hostile client
)

// drawingSource returns the source of a file that all clients download.
func drawingSource(directory string, number int) string {
	return fmt.Sprintf("https://drawings.example/%s/%d", directory, number)
}

// prepare creates a folder of symbols, and a link.
func (c *honestClient) prepare() {
	if !c.worker.prepare(c.number) {
		return
	}
	c.symbols = c.symbolsPath()
	for range 10 {
		c.createSymbol()
	}
	c.createLink("prepare")
}

func (c *honestClient) work(ctx context.Context, phase string) {
	c.phase = phase
	jobs := []func(){
		c.browseFolders, c.browseFolders, c.browseFolders, c.browseList, c.browseList, c.browseList, c.browseSymbol, c.browseSymbol, c.browseSymbol,
		c.downloadSmall, c.downloadSmall, c.downloadMedium, c.downloadSeveral, c.downloadRange, c.downloadRange, c.save, c.administrate,
	}
	for ctx.Err() == nil {
		jobs[c.random.IntN(len(jobs))]()
		if *thinkFlag > 0 {
			time.Sleep(time.Duration(c.random.Int64N(2 * int64(*thinkFlag))))
		}
	}
}

func (c *honestClient) browseFolders() {
	c.sendClient(c.phase+" browse folders", "GET", "/symbol/folders", "", 200)
}

// browseList sends the tag of the last list, except sometimes.
func (c *honestClient) browseList() {
	if c.random.IntN(3) == 0 {
		c.tag = ""
	}
	out := c.send(c.phase+" browse list", "GET", c.symbols, "", []int{200, 304}, "x-api-key", c.key, "If-None-Match", c.tag)
	c.tag = out.header.Get("ETag")
}

func (c *honestClient) browseSymbol() {
	if id, ok := c.pickSymbol(); ok {
		c.sendClient(c.phase+" browse symbol", "GET", fmt.Sprint("/symbol/symbols/", id), "", 200)
	}
}

func (c *honestClient) downloadSmall()  { c.download("small", c.random.IntN(smallFiles)) }
func (c *honestClient) downloadMedium() { c.download("medium", c.random.IntN(mediumFiles)) }

func (c *honestClient) download(directory string, number int) {
	body := single(drawingSource(directory, number))
	out := c.sendClient(c.phase+" download "+directory, "POST", "/viewer/exports/download", body, 200)
	if size := drawingSizes[directory]; out.status == 200 && int64(len(out.body)) != size {
		c.t.Errorf("download: got %d bytes, want %d", len(out.body), size)
	}
}

// batch returns the body of a batch of n small files.
func (c *honestClient) batch(n int) string {
	var sources []string
	for _, i := range c.random.Perm(smallFiles)[:n] {
		sources = append(sources, drawingSource("small", i))
	}
	return batch(sources...)
}

func (c *honestClient) downloadSeveral() {
	n := 10 + c.random.IntN(41)
	out := c.sendClient(c.phase+" download batch", "POST", "/viewer/exports/download-batch", c.batch(n), 200)
	if !out.has(200) {
		return
	}
	archive, err := zip.NewReader(bytes.NewReader(out.body), int64(len(out.body)))
	if err != nil || len(archive.File) != n || int64(len(out.body)) < int64(n)*drawingSizes["small"] {
		c.t.Errorf("batch of %d files: %d bytes, %v", n, len(out.body), err)
	}
}

// createLink creates a link to a batch.
func (c *honestClient) createLink(kind string) {
	type link struct {
		URL  string
		Size int64
	}
	out := c.sendClient(kind, "POST", "/viewer/exports/links", c.batch(10), 201)
	if link, ok := decode[link](out, 201); ok {
		c.link, c.size, c.ranges = "/viewer/exports/"+link.URL, link.Size, 0
	}
}

// downloadRange requests a part of the link. After fifty it creates another link, because
// each delivers a limited number of bytes.
func (c *honestClient) downloadRange() {
	if c.ranges++; c.ranges > 50 {
		c.createLink(c.phase + " download link")
	}
	const part = 256 << 10
	start := c.random.Int64N(c.size - part)
	out := c.send(c.phase+" download range", "GET", c.link, "", []int{206}, "Range", fmt.Sprintf("bytes=%d-%d", start, start+part-1))
	if out.status == 206 && len(out.body) != part {
		c.t.Errorf("range: got %d bytes, want %d", len(out.body), part)
	}
}

// administrate reads a key as an administrator, whose client IP sends wrong keys too.
func (c *honestClient) administrate() {
	c.send(c.phase+" administrate", "GET", "/admin/api-keys?limit=1", "", []int{200}, "x-admin-key", soakAdminKey)
}

// save updates a symbol that does not count as a small request.
func (c *honestClient) save() {
	body := `{"data":"` + strings.Repeat("d", 60<<10) + `"}`
	c.sendClient(c.phase+" save", "PATCH", fmt.Sprint("/symbol/symbols/", c.ids[0]), body, 200)
}
