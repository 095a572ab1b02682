package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/storage/testflag"
)

// changingOrigin serves a file that changes, over connections that fail, and with
// or without validators and ranges. Its clock advances between requests. All its
// choices follow from a seed. It never lies in a way that no client could detect.
type changingOrigin struct {
	mu     sync.Mutex
	random *rand.Rand
	now    time.Time

	strong, weak, dated          bool // validators
	sameTag                      bool // for all versions
	ignoresRange, ignoresIfRange bool
	rejectsRange                 bool // with 416
	withoutLength                bool
	changeRate, faultRate        float64

	content  []byte
	modified time.Time
	all      [][]byte                // versions
	versions map[exports.Part][]byte // by Validator and Size; the last one counts
}

func newChangingOrigin(seed uint64) *changingOrigin {
	random := rand.New(rand.NewPCG(seed, 0))
	flip := func(p float64) bool { return random.Float64() < p }
	o := &changingOrigin{
		random: random, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), versions: make(map[exports.Part][]byte),
		strong: flip(.5), weak: flip(.5), dated: flip(.7), ignoresRange: flip(.15), ignoresIfRange: flip(.5), rejectsRange: flip(.1),
		changeRate: random.Float64() * .3, faultRate: random.Float64() * .6,
	}
	o.sameTag = o.strong && flip(.2)
	o.withoutLength = !o.sameTag && flip(.2) // with neither size nor tag, nobody could tell
	o.change()
	return o
}

// change replaces the file. Its size changes if the ETag does not.
func (o *changingOrigin) change() {
	size := len(o.content)
	for o.random.IntN(2) == 0 || o.sameTag && o.hasSize(size) {
		size = o.random.IntN(3000)
	}
	o.content = randomBytes(byte(len(o.all)), size)
	o.all = append(o.all, o.content)
	o.modified = o.now.Truncate(time.Second)
	for _, validator := range []string{o.etag(), o.modified.Format(http.TimeFormat)} {
		for _, known := range []int{-1, size} {
			o.versions[exports.Part{Validator: validator, Size: int64(known)}] = o.content
		}
	}
}

func (o *changingOrigin) hasSize(size int) bool {
	return slices.ContainsFunc(o.all, func(content []byte) bool { return len(content) == size })
}

func (o *changingOrigin) etag() string {
	if o.sameTag {
		return `"1"`
	}
	return fmt.Sprintf(`"%d"`, len(o.all))
}

func (o *changingOrigin) serve(conn net.Conn, r *http.Request, _ int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(time.Duration(o.random.IntN(1500)) * time.Millisecond)
	if o.random.Float64() < o.changeRate {
		o.change()
	}
	faulty := o.random.Float64() < o.faultRate
	kind := o.random.IntN(6)
	if faulty && kind == 0 && r.Header.Get("Range") != "" {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", o.random.IntN(len(o.content)+1))) // another range
	}
	response := o.response(r)
	switch {
	case !faulty || kind == 0:
		conn.Write(response)
	case kind == 1:
		io.WriteString(conn, "HTTP/1.1 503 No\r\n\r\n")
	case kind == 2:
		conn.Write(bytes.Replace(response, []byte("Content-Range: "), []byte("X: "), 1))
	default:
		conn.Write(response[:o.random.IntN(len(response))])
		if kind == 3 {
			resetConn(conn)
		}
	}
}

func (o *changingOrigin) response(r *http.Request) []byte {
	var b bytes.Buffer
	first, last, ranged := o.requestedRange(r)
	switch {
	case ranged && o.rejectsRange, ranged && first >= len(o.content):
		fmt.Fprintf(&b, "HTTP/1.1 416 No\r\nContent-Range: bytes */%d\r\nContent-Length: 0\r\n\r\n", len(o.content))
		return b.Bytes()
	case ranged:
		last = min(last, len(o.content)-1)
		if o.random.IntN(4) == 0 {
			last = first + o.random.IntN(last-first+1) // less than requested
		}
		fmt.Fprintf(&b, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\n", first, last, len(o.content))
	default:
		first, last = 0, len(o.content)-1
		b.WriteString("HTTP/1.1 200 OK\r\n")
	}
	fmt.Fprintf(&b, "Date: %s\r\n", o.now.Format(http.TimeFormat))
	if o.strong {
		fmt.Fprintf(&b, "ETag: %s\r\n", o.etag())
	} else if o.weak {
		b.WriteString("ETag: W/\"1\"\r\n")
	}
	if o.dated {
		fmt.Fprintf(&b, "Last-Modified: %s\r\n", o.modified.Format(http.TimeFormat))
	}
	content := o.content[first : last+1]
	if o.withoutLength && len(content) > 0 {
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(content), content)
	} else {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(content), content)
	}
	return b.Bytes()
}

func (o *changingOrigin) requestedRange(r *http.Request) (first, last int, ok bool) {
	value, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok || o.ignoresRange {
		return 0, 0, false
	}
	if condition := r.Header.Get("If-Range"); condition != "" && !o.ignoresIfRange {
		honored := o.strong && condition == o.etag() || o.dated && condition == o.modified.Format(http.TimeFormat)
		if !honored {
			return 0, 0, false
		}
	}
	start, end, _ := strings.Cut(value, "-")
	first, _ = strconv.Atoi(start)
	last, err := strconv.Atoi(end)
	if err != nil {
		last = 1 << 30
	}
	return first, last, true
}

// A range is the exact part of the version that its Validator identifies, and a
// file is one version, or reading fails.
func TestOpener_NeverMixesVersions(t *testing.T) {
	t.Parallel()
	var ranges, changed, failed, opened int
	seeds := testflag.Rounds(50, 150, 150)
	for seed := range uint64(seeds) {
		o := newChangingOrigin(seed)
		c := newRawClient(t, fetch.Options{}, o.serve)
		for range 5 {
			file, err := c.Stat(t.Context(), parse(t, c.url))
			if err != nil {
				failed++
				continue
			}
			for range 3 {
				r := exports.Part{Validator: file.Validator, Size: file.Size}
				o.mu.Lock()
				want := o.versions[r]
				if r.Length = int64(len(want)); r.Length > 0 && o.random.IntN(4) > 0 {
					r.Offset = o.random.Int64N(r.Length)
					r.Length = o.random.Int64N(r.Length - r.Offset + 1)
				}
				o.mu.Unlock()
				content, err := c.readRange(t, c.url, r)
				ranges++
				switch {
				case errors.Is(err, exports.ErrChanged):
					changed++
				case err != nil:
					failed++
				case r.Validator == "", content != string(want[r.Offset:r.Offset+r.Length]):
					t.Fatalf("seed %d: %d bytes are not those of %+v", seed, len(content), r)
				}
				if err != nil && !strings.HasPrefix(string(want[min(r.Offset, int64(len(want))):]), content) {
					t.Fatalf("seed %d: %d bytes before an error are not those of %+v", seed, len(content), r)
				}
			}
			content, err := c.read(t, c.url)
			if err == nil {
				opened++
			}
			if !o.isVersion(content, err == nil) {
				t.Fatalf("seed %d: Open reads %d bytes of no version, error %v", seed, len(content), err)
			}
		}
		c.CloseIdleConnections()
	}
	t.Logf("%d ranges, %d of changed files, %d failures, %d complete files", ranges, changed, failed, opened)
	if changed < ranges/20 || ranges-changed-failed < ranges/5 || opened < seeds {
		t.Error("the origin is too kind or too unkind for a meaningful test")
	}
}

// isVersion reports whether content is a version of the file, or the beginning of
// one.
func (o *changingOrigin) isVersion(content string, complete bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.all, func(version []byte) bool {
		return strings.HasPrefix(string(version), content) && (!complete || len(content) == len(version))
	})
}
