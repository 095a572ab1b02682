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
	"example.com/canvasback/storage/testflag"
)

const (
	cutStep     = 64 << 10
	prefixBytes = 1 << 20 // a batch skips a file that is interrupted up to here
)

// planFile returns the content of plan.bin, twice as long as a prefix and more.
var planFile = sync.OnceValue(func() []byte { return randomBytes(1, 2*prefixBytes+12_345) })

// randomBytes returns content in which no two parts are equal.
func randomBytes(seed byte, n int) []byte {
	content := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(content)
	return content
}

// cutPositions returns every multiple of cutStep in plan.bin from first on, or a third of
// them unless all are asked for.
func cutPositions(first int) []int {
	step := 3 * cutStep
	if testflag.Thorough() {
		step = cutStep
	}
	var positions []int
	for at := first; at < len(planFile()); at += step {
		positions = append(positions, at)
	}
	return positions
}

// faultyOrigin serves two small files and plan.bin, with ranges as net/http does
// it. It interrupts responses with plan.bin at given positions.
type faultyOrigin struct {
	t       *testing.T
	service *exports.Service
	etag    string // of plan.bin: strong, weak or empty
	undated bool   // plan.bin has no Last-Modified
	changes bool   // plan.bin changes after the first cut
	reset   bool   // cut with RST, which may also discard earlier bytes

	mu     sync.Mutex
	cutAt  []int // remaining positions, ascending
	cuts   int
	starts []int // range start of each request for plan.bin

	urls []string // of all files; they are also their sources
}

// start starts the origin, with cuts at some positions, and a service that fetches from it.
// A position may occur several times.
func (o *faultyOrigin) start(t *testing.T, cutAt ...int) *faultyOrigin {
	t.Helper()
	o.t, o.cutAt = t, slices.Clone(cutAt)
	c := newOriginClient(t, fetch.Options{}, o.serve)
	for _, name := range []string{"a.bin", "plan.bin", "z.bin"} {
		o.urls = append(o.urls, c.url+"/"+name)
	}
	o.service = newService(t, memory.New().Exports(), o.urls, exports.Options{Openers: []exports.Opener{c}})
	return o
}

func (o *faultyOrigin) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	changed, _ := http.ParseTime(testModified)
	if name != "plan.bin" {
		http.ServeContent(w, r, name, changed, bytes.NewReader(randomBytes(name[0], 5000)))
		return
	}
	first := rangeStart(o.t, r)
	content, etag := planFile(), o.etag
	o.mu.Lock()
	o.starts = append(o.starts, first)
	if o.changes && o.cuts > 0 {
		content, etag = randomBytes(2, len(content)), `"2"`
	}
	if i := slices.IndexFunc(o.cutAt, func(at int) bool { return at >= first }); i >= 0 {
		w = &cutWriter{ResponseWriter: w, remaining: o.cutAt[i] - first, cut: o.cut}
		o.cutAt = slices.Delete(o.cutAt, i, i+1)
	}
	o.mu.Unlock()
	if o.undated {
		changed = time.Time{}
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(w, r, name, changed, bytes.NewReader(content))
}

func (o *faultyOrigin) cut(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cuts++
	if o.reset {
		resetConn(conn)
		return
	}
	conn.Close()
}

type cutWriter struct {
	http.ResponseWriter
	remaining int
	cut       func(net.Conn)
}

func (w *cutWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.remaining)])
	w.remaining -= n
	if err != nil || w.remaining > 0 {
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

// wantCuts fails the test unless n responses were cut and no cut remains.
func (o *faultyOrigin) wantCuts(n int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cuts != n || len(o.cutAt) > 0 {
		o.t.Errorf("%d cuts, want %d; remaining: %v", o.cuts, n, o.cutAt)
	}
}

func (o *faultyOrigin) wantStarts(starts ...int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.starts, starts) {
		o.t.Errorf("range starts %v, want %v", o.starts, starts)
	}
}

func (o *faultyOrigin) downloadFile() ([]byte, error) {
	o.t.Helper()
	export := must(o.service.Find(o.t.Context(), o.urls[1]))(o.t)
	download, err := o.service.Open(o.t.Context(), export)
	if err != nil {
		return nil, err
	}
	defer download.Close()
	content, err := io.ReadAll(download.Body)
	if n, readErr := download.Body.Read(make([]byte, 1)); n > 0 || err == nil && readErr != io.EOF || err != nil && !errors.Is(readErr, err) {
		o.t.Errorf("Read returned %v at the end of the file, then %d bytes and %v", err, n, readErr)
	}
	return content, err
}

func (o *faultyOrigin) downloadZip() ([]byte, error) {
	o.t.Helper()
	found := must(o.service.FindBatch(o.t.Context(), exports.BatchOf(o.urls...)))(o.t)
	batch := must(o.service.OpenBatch(o.t.Context(), found))(o.t)
	defer batch.Close()
	var out bytes.Buffer
	err := batch.WriteZip(&out, nil)
	return out.Bytes(), err
}

func faultlessZip(t *testing.T) []byte {
	t.Helper()
	o := (&faultyOrigin{etag: `"1"`}).start(t)
	archive := must(o.downloadZip())(t)
	o.wantCuts(0)
	return archive
}

// wantFaultless fails the test unless a file from one origin and an archive from
// another are the same as without faults, and each cut was followed by a request for the
// rest. A reset may also discard earlier bytes.
func wantFaultless(t *testing.T, wantZip []byte, etag string, reset bool, cutAt ...int) {
	t.Helper()
	is := is.New(t)
	check := func(o *faultyOrigin) {
		t.Helper()
		o.wantCuts(len(cutAt))
		if !reset {
			o.wantStarts(append([]int{0}, cutAt...)...)
		}
	}
	o := (&faultyOrigin{etag: etag, reset: reset}).start(t, cutAt...)
	is.True(bytes.Equal(must(o.downloadFile())(t), planFile()))
	check(o)

	o = (&faultyOrigin{etag: etag, reset: reset}).start(t, cutAt...)
	is.True(bytes.Equal(must(o.downloadZip())(t), wantZip))
	check(o)
}

func TestDownload_ResumesAfterCuts(t *testing.T) {
	t.Parallel()
	wantZip := faultlessZip(t)
	cutPlans := map[string][]int{
		"at every boundary":           cutPositions(0),
		"three times at one position": {cutStep, cutStep, cutStep},
		"around the prefix":           {prefixBytes - 1, prefixBytes, prefixBytes + 1},
		"before the last byte":        {len(planFile()) - 2, len(planFile()) - 1, len(planFile()) - 1},
	}
	for _, at := range cutPositions(0) {
		cutPlans[fmt.Sprintf("once at %d", at)] = []int{at}
	}
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		var cutAt []int
		for range 2 + random.IntN(10) {
			cutAt = append(cutAt, random.IntN(len(planFile())))
		}
		slices.Sort(cutAt)
		cutPlans[fmt.Sprintf("random, seed %d", seed)] = cutAt
	}
	for name, cutAt := range cutPlans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFaultless(t, wantZip, `"1"`, false, cutAt...)
			if len(cutAt) == 1 {
				wantFaultless(t, wantZip, `"1"`, true, cutAt...)
			}
		})
	}
}

// A request is retried before the first byte, whatever the validator. Later, a file without
// a strong ETag is resumed by its Last-Modified.
func TestDownload_ResumesWithoutStrongETag(t *testing.T) {
	t.Parallel()
	wantZip := faultlessZip(t)
	for _, etag := range []string{"", `W/"1"`} {
		wantFaultless(t, wantZip, etag, false, 0)
		wantFaultless(t, wantZip, etag, false, cutStep, 3*cutStep)
	}
}

// A download must never mix two versions of a file.
func TestDownload_FailsWithoutMatchingETag(t *testing.T) {
	t.Parallel()
	for name, newOrigin := range map[string]func() *faultyOrigin{
		"no validator": func() *faultyOrigin { return &faultyOrigin{undated: true} },
		"weak":         func() *faultyOrigin { return &faultyOrigin{undated: true, etag: `W/"1"`} },
		"changed":      func() *faultyOrigin { return &faultyOrigin{changes: true, etag: `"1"`} },
	} {
		starts := func(at int) []int {
			if name == "changed" {
				return []int{0, at} // the second response reveals the change
			}
			return []int{0}
		}
		for _, at := range cutPositions(cutStep) {
			t.Run(fmt.Sprintf("%s, file cut at %d", name, at), func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				o := newOrigin().start(t, at)
				content, err := o.downloadFile()
				is.True(errors.Is(err, exports.ErrFailed))
				is.True(errors.Is(err, io.ErrUnexpectedEOF))
				is.True(!errors.Is(err, io.EOF)) // callers would take it for the end of the file
				is.True(bytes.Equal(content, planFile()[:at]))
				o.wantCuts(1)
				o.wantStarts(starts(at)...)
			})
			t.Run(fmt.Sprintf("%s, zip cut at %d", name, at), func(t *testing.T) {
				t.Parallel()
				o := newOrigin().start(t, at)
				archive, err := o.downloadZip()
				if at <= prefixBytes {
					o.wantSkipped(archive, err)
				} else {
					wantTruncated(t, archive, err)
				}
				o.wantCuts(1)
				o.wantStarts(starts(at)...)
			})
		}
	}
}

// A long file may be cut after its prefix and before its zip entry, for example
// because the origin closed an idle connection. It is then opened again.
func TestDownload_ReopensFileCutBeforeZipEntry(t *testing.T) {
	t.Parallel()
	for _, at := range []int{prefixBytes + 2, prefixBytes + 1000, prefixBytes + cutStep - 1} {
		for _, changes := range []bool{false, true} {
			is := is.New(t)
			o, content, starts := &faultyOrigin{undated: true}, planFile(), []int{0, 0}
			if changes {
				o = &faultyOrigin{changes: true, etag: `"1"`}
				content, starts = randomBytes(2, len(content)), []int{0, at, 0}
			}
			o.start(t, at)
			archive := must(o.downloadZip())(t)
			r := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
			is.Equal(len(r.File), 3)
			body := must(r.File[1].Open())(t)
			is.True(bytes.Equal(must(io.ReadAll(body))(t), content)) // all of it from one version
			o.wantCuts(1)
			o.wantStarts(starts...)
		}
	}
}

// wantSkipped fails the test unless the archive is complete without plan.bin, and
// its manifest lists plan.bin as skipped.
func (o *faultyOrigin) wantSkipped(archive []byte, err error) {
	t := o.t
	t.Helper()
	is := is.New(t)
	is.NoErr(err)
	r := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
	is.Equal(len(r.File), 3)
	for i, name := range []string{"a.bin", "z.bin", "manifest.json"} {
		is.Equal(r.File[i].Name, name)
		body := must(r.File[i].Open())(t)
		if name == "manifest.json" {
			content := must(io.ReadAll(body))(t)
			is.True(strings.Contains(string(content), `"sourceFileUrl": "`+o.urls[1]+`"`))
			is.True(strings.Contains(string(content), `"included": 2`))
			continue
		}
		is.NoErr(iotest.TestReader(body, randomBytes(name[0], 5000)))
	}
}

// wantTruncated fails the test unless zip readers reject the archive.
func wantTruncated(t *testing.T, archive []byte, err error) {
	t.Helper()
	is := is.New(t)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.True(len(archive) > prefixBytes) // the entry has begun
	_, err = zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.True(errors.Is(err, zip.ErrFormat))
}
