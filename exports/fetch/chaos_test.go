package fetch_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/storage/memory"
)

const (
	cutStep   = 64 << 10
	cutWindow = 1 << 20 // a file that breaks up to here is left out of a batch
)

// cutFile is two windows long and ends at no boundary.
var cutFile = sync.OnceValue(func() []byte { return noise(1, 2*cutWindow+12_345) })

// noise is content in which no part looks like another.
func noise(seed byte, n int) []byte {
	content := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(content)
	return content
}

// cutPositions are the boundaries in the file, from the first one on.
func cutPositions(first int) []int {
	var positions []int
	for at := first; at < len(cutFile()); at += cutStep {
		positions = append(positions, at)
	}
	return positions
}

// chaos is an origin of three files: a small one, plan.bin, and another small
// one. It serves ranges as net/http does, and cuts the connections over which
// plan.bin goes.
type chaos struct {
	t       *testing.T
	service *exports.Service
	address string
	tag     string // strong, weak or empty
	changes bool   // plan.bin is another one after the first cut
	reset   bool   // a cut is a reset, by which the last bytes may be lost too

	mu     sync.Mutex
	plan   []int // where to cut yet, ascending
	cuts   int   // how often it was done
	firsts []int // where the requests for plan.bin began
}

// newChaos starts an origin; a plan with the same position twice cuts there
// twice.
func newChaos(t *testing.T, tag string, plan ...int) *chaos {
	t.Helper()
	c := &chaos{t: t, tag: tag, plan: plan}
	address, host := serve(t, c.serve)
	c.address = address
	c.service = exports.NewService(memory.New().Exports(), &exports.Options{
		Openers: []exports.Opener{newClient(t, fetch.Options{AllowedHosts: []string{host}})},
	})
	for _, name := range c.sources() {
		if _, _, err := c.service.Register(t.Context(), name, address+"/"+name, ""); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *chaos) sources() []string { return []string{"a.bin", "plan.bin", "z.bin"} }

func (c *chaos) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	changed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if name != "plan.bin" {
		http.ServeContent(w, r, name, changed, bytes.NewReader(noise(name[0], 5000)))
		return
	}
	first := position(c.t, r)
	content, tag := cutFile(), c.tag
	c.mu.Lock()
	c.firsts = append(c.firsts, first)
	if c.changes && c.cuts > 0 {
		content, tag = noise(2, len(content)), `"2"`
	}
	if i := slices.IndexFunc(c.plan, func(at int) bool { return at >= first }); i >= 0 {
		w = &cutter{ResponseWriter: w, left: c.plan[i] - first, cut: c.cut}
		c.plan = slices.Delete(c.plan, i, i+1)
	}
	c.mu.Unlock()
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	http.ServeContent(w, r, name, changed, bytes.NewReader(content))
}

// cut closes a connection in the middle of an answer.
func (c *chaos) cut(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
	if c.reset {
		reset(conn)
		return
	}
	conn.Close()
}

// cutter is an answer whose connection is cut after some bytes of the body.
type cutter struct {
	http.ResponseWriter
	left int
	cut  func(net.Conn)
}

func (w *cutter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	w.left -= n
	if err != nil || w.left > 0 {
		return n, err
	}
	control := http.NewResponseController(w.ResponseWriter)
	if err := control.Flush(); err != nil {
		return n, err
	}
	conn, _, err := control.Hijack()
	if err != nil {
		return n, err
	}
	w.cut(conn)
	return n, net.ErrClosed
}

// wantCuts fails the test unless the fault has happened so many times.
func (c *chaos) wantCuts(n int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuts != n || len(c.plan) > 0 {
		c.t.Errorf("%d cuts, want %d; left to do: %v", c.cuts, n, c.plan)
	}
}

// wantFirsts fails the test unless the requests for plan.bin began there.
func (c *chaos) wantFirsts(firsts ...int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.firsts, firsts) {
		c.t.Errorf("requests began at %v, want %v", c.firsts, firsts)
	}
}

// single downloads plan.bin.
func (c *chaos) single() ([]byte, error) {
	c.t.Helper()
	export, err := c.service.Find(c.t.Context(), "plan.bin")
	if err != nil {
		c.t.Fatal(err)
	}
	download, err := c.service.Open(c.t.Context(), export)
	if err != nil {
		return nil, err
	}
	defer download.Close()
	content, err := io.ReadAll(download.Body)
	if n, again := download.Body.Read(make([]byte, 1)); n > 0 || err == nil && again != io.EOF || err != nil && !errors.Is(again, err) {
		c.t.Errorf("the end of the file was %v, and then %d bytes and %v", err, n, again)
	}
	return content, err
}

// archive downloads all three files.
func (c *chaos) archive() ([]byte, error) {
	c.t.Helper()
	found, err := c.service.FindBatch(c.t.Context(), c.sources())
	if err != nil {
		c.t.Fatal(err)
	}
	batch, err := c.service.OpenBatch(c.t.Context(), found)
	if err != nil {
		c.t.Fatal(err)
	}
	defer batch.Close()
	var out bytes.Buffer
	err = batch.WriteZip(&out, nil)
	return out.Bytes(), err
}

// undisturbed is the archive of an origin without a fault.
func undisturbed(t *testing.T) []byte {
	t.Helper()
	c := newChaos(t, `"1"`)
	archive, err := c.archive()
	if err != nil {
		t.Fatal(err)
	}
	c.wantCuts(0)
	return archive
}

// wantUndisturbed fails the test unless a download by one origin, and a zip by
// another, are what they would have been without a fault.
func wantUndisturbed(t *testing.T, quiet []byte, make func() *chaos, check func(*chaos)) {
	t.Helper()
	is := is.New(t)
	c := make()
	content, err := c.single()
	is.NoErr(err)
	is.True(bytes.Equal(content, cutFile()))
	check(c)

	c = make()
	archive, err := c.archive()
	is.NoErr(err)
	is.True(bytes.Equal(archive, quiet))
	check(c)
}

func TestChaos_cutOnce(t *testing.T) {
	t.Parallel()
	quiet := undisturbed(t)
	for _, at := range cutPositions(0) {
		t.Run(fmt.Sprintf("closed at %d", at), func(t *testing.T) {
			t.Parallel()
			wantUndisturbed(t, quiet, func() *chaos { return newChaos(t, `"1"`, at) }, func(c *chaos) {
				c.wantCuts(1)
				c.wantFirsts(0, at)
			})
		})
		t.Run(fmt.Sprintf("reset at %d", at), func(t *testing.T) {
			t.Parallel()
			wantUndisturbed(t, quiet, func() *chaos {
				c := newChaos(t, `"1"`, at)
				c.reset = true
				return c
			}, func(c *chaos) { c.wantCuts(1) })
		})
	}
}

func TestChaos_cutManyTimes(t *testing.T) {
	t.Parallel()
	quiet := undisturbed(t)
	plans := map[string][]int{
		"at every boundary":        cutPositions(0),
		"three times at one place": {cutStep, cutStep, cutStep},
		"around the window":        {cutWindow - 1, cutWindow, cutWindow + 1},
		"before the last byte":     {len(cutFile()) - 2, len(cutFile()) - 1, len(cutFile()) - 1},
	}
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		var plan []int
		for range 2 + random.IntN(10) {
			plan = append(plan, random.IntN(len(cutFile())))
		}
		slices.Sort(plan)
		plans[fmt.Sprintf("anywhere, seed %d", seed)] = plan
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantUndisturbed(t, quiet, func() *chaos { return newChaos(t, `"1"`, slices.Clone(plan)...) }, func(c *chaos) {
				c.wantCuts(len(plan))
				c.wantFirsts(append([]int{0}, plan...)...)
			})
		})
	}
}

// A file that has not begun is asked for anew, whatever its validator.
func TestChaos_cutBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	quiet := undisturbed(t)
	for _, tag := range []string{"", `W/"1"`} {
		wantUndisturbed(t, quiet, func() *chaos { return newChaos(t, tag, 0) }, func(c *chaos) {
			c.wantCuts(1)
			c.wantFirsts(0, 0)
		})
	}
}

// Two files must never be put together to one.
func TestChaos_cutForGood(t *testing.T) {
	t.Parallel()
	for name, origin := range map[string]func(t *testing.T, at int) *chaos{
		"no validator":  func(t *testing.T, at int) *chaos { return newChaos(t, "", at) },
		"weak":          func(t *testing.T, at int) *chaos { return newChaos(t, `W/"1"`, at) },
		"changed since": func(t *testing.T, at int) *chaos { c := newChaos(t, `"1"`, at); c.changes = true; return c },
	} {
		firsts := func(at int) []int {
			if name == "changed since" {
				return []int{0, at} // and there it learns of the change
			}
			return []int{0}
		}
		for _, at := range cutPositions(cutStep) {
			t.Run(fmt.Sprintf("%s, single cut at %d", name, at), func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				c := origin(t, at)
				content, err := c.single()
				is.True(errors.Is(err, exports.ErrFailed))
				is.True(errors.Is(err, io.ErrUnexpectedEOF))
				is.True(!errors.Is(err, io.EOF)) // which readers take for the end
				is.True(bytes.Equal(content, cutFile()[:at]))
				c.wantCuts(1)
				c.wantFirsts(firsts(at)...)
			})
			t.Run(fmt.Sprintf("%s, zip cut at %d", name, at), func(t *testing.T) {
				t.Parallel()
				c := origin(t, at)
				archive, err := c.archive()
				if at <= cutWindow {
					wantSkipped(t, archive, err)
				} else {
					wantTorn(t, archive, err)
				}
				c.wantCuts(1)
				c.wantFirsts(firsts(at)...)
			})
		}
	}
}

// A long file that breaks in what is read just before its entry begins, be it
// because its origin would not wait for its turn, is begun anew.
func TestChaos_cutBeforeTheEntry(t *testing.T) {
	t.Parallel()
	for _, at := range []int{cutWindow + 2, cutWindow + 1000, cutWindow + cutStep - 1} {
		for _, changes := range []bool{false, true} {
			is := is.New(t)
			c := newChaos(t, "", at)
			content, firsts := cutFile(), []int{0, 0}
			if changes {
				c.tag, c.changes = `"1"`, true
				content, firsts = noise(2, len(content)), []int{0, at, 0}
			}
			archive, err := c.archive()
			is.NoErr(err)
			r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
			is.NoErr(err)
			is.Equal(len(r.File), 3)
			body, err := r.File[1].Open()
			is.NoErr(err)
			got, err := io.ReadAll(body)
			is.NoErr(err)
			is.True(bytes.Equal(got, content)) // of one version, from its first byte
			c.wantCuts(1)
			c.wantFirsts(firsts...)
		}
	}
}

// wantSkipped fails the test unless the archive is whole, lacks plan.bin and
// says so.
func wantSkipped(t *testing.T, archive []byte, err error) {
	t.Helper()
	is := is.New(t)
	is.NoErr(err)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	is.Equal(len(r.File), 3)
	for i, name := range []string{"a.bin", "z.bin", "manifest.json"} {
		is.Equal(r.File[i].Name, name)
		body, err := r.File[i].Open()
		is.NoErr(err)
		if name == "manifest.json" {
			content, err := io.ReadAll(body)
			is.NoErr(err)
			is.True(strings.Contains(string(content), `"sourceFileUrl": "plan.bin"`))
			is.True(strings.Contains(string(content), `"included": 2`))
			continue
		}
		is.NoErr(iotest.TestReader(body, noise(name[0], 5000)))
	}
}

// wantTorn fails the test unless the archive cannot be taken for a whole one.
func wantTorn(t *testing.T, archive []byte, err error) {
	t.Helper()
	is := is.New(t)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.True(len(archive) > cutWindow) // it has begun
	_, err = zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.True(errors.Is(err, zip.ErrFormat))
}
