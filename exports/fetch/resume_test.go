package fetch_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

const resumed = "0123456789abcdefghijklmnopqrstuvwxyz"

// rest answers with the bytes from first on, cut off after n of them.
func rest(conn net.Conn, tag string, first, n int) {
	fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: %s\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n%s",
		tag, first, len(resumed)-1, len(resumed), len(resumed)-first, resumed[first:min(len(resumed), first+n)])
}

// whole answers with the file, cut off after n bytes.
func whole(conn net.Conn, tag string, n int) {
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %d\r\n\r\n%s", tag, len(resumed), resumed[:n])
}

// position is the first byte that is asked for.
func position(t *testing.T, r *http.Request) int {
	t.Helper()
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok {
		return 0
	}
	first, err := strconv.Atoi(strings.TrimSuffix(text, "-"))
	if err != nil || !strings.HasSuffix(text, "-") {
		t.Errorf("Range: %s", r.Header.Get("Range"))
	}
	if r.Header.Get("If-Range") != `"1"` {
		t.Errorf("If-Range: %s", r.Header.Get("If-Range"))
	}
	return first
}

func TestBody_resumed(t *testing.T) {
	t.Parallel()
	for each := range len(resumed) {
		t.Run(fmt.Sprintf("every %d bytes", each+1), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var refused sync.Map
			address, host := serveRaw(t, func(conn net.Conn, r *http.Request, _ int) {
				first := position(t, r)
				_, again := refused.LoadOrStore(fmt.Sprint(r.URL.Path, first), true)
				switch {
				case r.URL.Path == "/":
					io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: /moved\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				case first == 0:
					whole(conn, `"1"`, each+1)
				case !again:
					io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
				default:
					rest(conn, `"1"`, first, each+1)
				}
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address+"/")
			is.NoErr(err)
			is.Equal(content, resumed)
		})
	}
}

func TestBody_resumedWithoutKnownSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, _ int) {
		if first := position(t, r); first > 0 {
			// a range may be longer than it says
			fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s",
				first, len(resumed)-1, len(resumed), resumed[first:]+"more")
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n")
	})
	content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
	is.NoErr(err)
	is.Equal(content, resumed)
}

func TestBody_brokenOffAtItsEnd(t *testing.T) {
	t.Parallel()
	const chunked, counted = "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", "Content-Length: 6\r\n\r\n01234"
	for name, c := range map[string]struct {
		first, status, header string
		complete              bool
	}{
		"complete":             {chunked, "416 No", "Content-Range: bytes */5\r\n", true},
		"same entity tag":      {chunked, "416 No", "Content-Range: bytes */5\r\nETag: \"1\"\r\n", true},
		"another entity tag":   {chunked, "416 No", "Content-Range: bytes */5\r\nETag: \"2\"\r\n", false},
		"weak entity tag":      {chunked, "416 No", "Content-Range: bytes */5\r\nETag: W/\"1\"\r\n", false},
		"shorter":              {chunked, "416 No", "Content-Range: bytes */4\r\n", false},
		"longer":               {chunked, "416 No", "Content-Range: bytes */6\r\n", false},
		"no length":            {chunked, "416 No", "Content-Range: bytes */*\r\n", false},
		"a range":              {chunked, "416 No", "Content-Range: bytes 0-4/5\r\n", false},
		"another unit":         {chunked, "416 No", "Content-Range: items */5\r\n", false},
		"nothing said":         {chunked, "416 No", "", false},
		"another status":       {chunked, "404 No", "Content-Range: bytes */5\r\n", false},
		"size known":           {counted, "416 No", "Content-Range: bytes */5\r\n", false},
		"an empty rest of 206": {chunked, "206 Yes", "Content-Range: bytes */5\r\nETag: \"1\"\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
				if n == 1 {
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\n"+c.first)
					return
				}
				is.Equal(position(t, r), 5)
				fmt.Fprintf(conn, "HTTP/1.1 %s\r\n%sContent-Length: 0\r\n\r\n", c.status, c.header)
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
			is.Equal(content, "01234")
			is.Equal(err == nil, c.complete)
			is.Equal(errors.Is(err, io.ErrUnexpectedEOF), !c.complete)
		})
	}
}

func TestBody_resumedByParts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, _ int) {
		first := position(t, r)
		if first == 0 {
			whole(conn, `"1"`, 5)
			return
		}
		last := min(first+9, len(resumed)-1) // less than was asked for, as an origin may
		fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n%s",
			first, last, len(resumed), last-first+1, resumed[first:last+1])
	})
	content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
	is.NoErr(err)
	is.Equal(content, resumed)
}

func TestBody_notResumed(t *testing.T) {
	t.Parallel()
	partial := func(header string) func(net.Conn, int) {
		return func(conn net.Conn, _ int) {
			io.WriteString(conn, "HTTP/1.1 206 Partial Content\r\nContent-Length: 31\r\n"+header+"\r\n"+resumed[5:])
		}
	}
	for name, c := range map[string]struct {
		tag      string
		again    func(conn net.Conn, first int)
		requests int
	}{
		"no entity tag":       {`none`, nil, 1},
		"weak entity tag":     {`W/"1"`, nil, 1},
		"the file as a whole": {`"1"`, func(conn net.Conn, _ int) { whole(conn, `"1"`, len(resumed)) }, 2},
		"another file":        {`"1"`, func(conn net.Conn, first int) { rest(conn, `"2"`, first, 100) }, 2},
		"another position":    {`"1"`, func(conn net.Conn, first int) { rest(conn, `"1"`, first-1, 100) }, 2},
		"no entity tag again": {`"1"`, partial("Content-Range: bytes 5-35/36\r\n"), 2},
		"another size":        {`"1"`, partial("ETag: \"1\"\r\nContent-Range: bytes 5-35/37\r\n"), 2},
		"size not told":       {`"1"`, partial("ETag: \"1\"\r\nContent-Range: bytes 5-35/*\r\n"), 2},
		"no range":            {`"1"`, partial("ETag: \"1\"\r\n"), 2},
		"a content coding":    {`"1"`, partial("ETag: \"1\"\r\nContent-Range: bytes 5-35/36\r\nContent-Encoding: gzip\r\n"), 2},
		"several parts":       {`"1"`, partial("ETag: \"1\"\r\nContent-Type: multipart/byteranges; boundary=x\r\n"), 2},
		"gone":                {`"1"`, func(conn net.Conn, _ int) { io.WriteString(conn, "HTTP/1.1 404 Not Found\r\n\r\n") }, 2},
		"failing for good":    {`"1"`, func(conn net.Conn, _ int) { io.WriteString(conn, "HTTP/1.1 500 No\r\n\r\n") }, 4},
		"no progress":         {`"1"`, func(conn net.Conn, first int) { rest(conn, `"1"`, first, 0) }, 4},
		"an empty rest": {`"1"`, func(conn net.Conn, first int) {
			fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes %d-35/36\r\nContent-Length: 0\r\n\r\n", first)
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan int, 100)
			address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
				requests <- n
				if n == 1 {
					whole(conn, c.tag, 5)
					return
				}
				c.again(conn, position(t, r))
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(errors.Is(err, io.ErrUnexpectedEOF))
			is.Equal(content, resumed[:5])
			is.Equal(len(requests), c.requests)
		})
	}
}

func TestBody_resumedBeyondTheLargestFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, _ int) {
		if first := position(t, r); first > 0 {
			rest(conn, `"1"`, first, 100)
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n")
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxBytes: 20})
	content, err := c.read(t, address)
	is.True(errors.Is(err, exports.ErrFailed))
	is.Equal(content, resumed[:5])
}

func TestParseContentRange(t *testing.T) {
	t.Parallel()
	first, total, ok := fetch.ParseContentRange("bytes 5-9/10")
	if first != 5 || total != 10 || !ok {
		t.Errorf("%d, %d, %t", first, total, ok)
	}
	for _, header := range []string{"", "bytes", "bytes 5-9", "bytes 5-9/*", "bytes */10", "bytes 5-/10", "bytes -5/10", "5-9/10",
		"bytes 9-5/10", "bytes 5-10/10", "bytes +5-9/10", "bytes 5-9/99999999999999999999", "bytes 5-9/10 ", "items 5-9/10"} {
		if _, _, ok := fetch.ParseContentRange(header); ok {
			t.Errorf("%q is taken", header)
		}
	}
}

func TestResume_afterStandingStill(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
		if n == 1 {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"1\"\r\n\r\n01234")
			gone(conn)
			return
		}
		is.Equal(r.Header.Get("Range"), "bytes=5-")
		io.WriteString(conn, "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\nETag: \"1\"\r\n\r\n56789")
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: 50 * time.Millisecond})
	content, err := c.read(t, address)
	is.NoErr(err)
	is.Equal(content, "0123456789")
}

func TestResume_standingStillIsForgivenOnlySoOften(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var asked atomic.Int64
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
		asked.Add(1)
		if n == 1 {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nETag: \"1\"\r\n\r\nx")
		} else {
			fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\nContent-Range: bytes %d-99/100\r\nETag: \"1\"\r\n\r\nx", 101-n, n-1)
		}
		gone(conn)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: 30 * time.Millisecond})
	_, err := c.read(t, address)
	is.True(errors.Is(err, exports.ErrTimeout))
	is.Equal(asked.Load(), int64(3))
}

func TestResume_standingStillIsForgivenAnewAfterProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ part, wanted int }{
		"enough":     {1 << 20, 6},
		"not enough": {1<<20 - 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			size := 6 * c.part
			var asked atomic.Int64
			address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
				asked.Add(1)
				if first := position(t, r); first == 0 {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: %d\r\n\r\n", size)
				} else {
					fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n",
						first, size-1, size, size-first)
				}
				conn.Write(make([]byte, c.part))
				if n < 6 {
					gone(conn)
				}
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: 400 * time.Millisecond}).read(t, address)
			is.Equal(errors.Is(err, exports.ErrTimeout), c.wanted < 6)
			is.Equal(err == nil, c.wanted == 6)
			is.Equal(len(content), c.wanted*c.part)
			is.Equal(asked.Load(), int64(c.wanted))
		})
	}
}
