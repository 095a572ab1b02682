package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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

func TestBody_ContentLength(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		response, content string
		size              int64
		truncated         bool
	}{
		"short":           {"Content-Length: 10\r\n\r\n12345", "12345", 10, true},
		"no last chunk":   {"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "12345", -1, true},
		"truncated chunk": {"Transfer-Encoding: chunked\r\n\r\n9\r\n12345", "12345", -1, true},
		"invalid chunk":   {"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nxyz", "12345", -1, true},
		"long":            {"Content-Length: 5\r\nConnection: close\r\n\r\n1234567890", "12345", 5, false},
		"none":            {"\r\n1234567890", "1234567890", -1, false},
		"empty":           {"Content-Length: 0\r\n\r\n", "", 0, false},
		"empty, chunked":  {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			client := newRawClient(t, fetch.Options{}, respondWith(nil, "200 OK\r\n"+c.response))
			file := must(client.open(t, client.url))(t)
			is.Equal(file.Size, c.size)
			content, err := io.ReadAll(file.Body)
			is.Equal(string(content), c.content)
			is.Equal(err != nil, c.truncated)
			is.Equal(errors.Is(err, io.ErrUnexpectedEOF), c.truncated)
			is.Equal(errors.Is(err, exports.ErrFailed), c.truncated)
		})
	}
}

func TestBody_ConnectionReset(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const content = "0123456789"
	c := newRawClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, _ int) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"+content[:5])
		time.Sleep(5 * time.Millisecond) // a reset discards what the client has not received
		resetConn(conn)
	})
	got, err := c.read(t, c.url)
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.True(strings.HasPrefix(content, got))
}

func TestBody_IdleTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		const idle = 200 * time.Millisecond
		c := newPipeClient(t, fetch.Options{IdleTimeout: idle}, func(conn net.Conn, _ *http.Request, n int) {
			if n > 1 {
				t.Error("unexpected retry")
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") // no ETag, so it cannot be resumed
			for range 6 {
				io.WriteString(conn, "x")
				time.Sleep(idle / 2)
			}
			waitForClose(conn)
		})
		start := time.Now()
		content, err := c.read(t, pipeURL)
		is.True(errors.Is(err, exports.ErrTimeout))
		is.Equal(content, "xxxxxx") // longer than the idle timeout in total
		is.Equal(time.Since(start), 5*idle/2+idle)
	})
}

func TestBody_SlowReader(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		c := newPipeClient(t, fetch.Options{IdleTimeout: 20 * time.Millisecond}, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"+strings.Repeat("x", 1<<20))
		})
		file := must(c.open(t, pipeURL))(t)
		time.Sleep(100 * time.Millisecond)
		n := must(io.Copy(io.Discard, file.Body))(t) // the reader was idle, not the origin
		is.Equal(n, int64(1<<20))
	})
}

func TestBody_FreesConnection(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]func(context.CancelFunc, *exports.File){
		"context ends": func(cancel context.CancelFunc, _ *exports.File) { cancel() },
		"Close":        func(_ context.CancelFunc, file *exports.File) { file.Body.Close() },
		"Close during Read": func(_ context.CancelFunc, file *exports.File) {
			time.AfterFunc(20*time.Millisecond, func() { file.Body.Close() })
			io.Copy(io.Discard, file.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const head = "200 OK\r\nContent-Length: 10\r\nETag: \"1\"\r\n\r\n12345"
			c, closed := newHeldClient(t, fetch.Options{IdleTimeout: time.Hour}, head)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			file := must(c.Open(ctx, parse(t, c.url)))(t)
			abandon(cancel, file)
			receive(t, closed)
			n, err := file.Body.Read(make([]byte, 10))
			is.True(n == 0 && errors.Is(err, exports.ErrFailed)) // even though bytes are buffered
			is.True(errors.Is(err, context.Canceled))
			is.True(errors.Is(err, os.ErrClosed) != (ctx.Err() != nil))
			is.NoErr(file.Body.Close())
		})
	}
}

func TestOpener_CancelBeforeHeader(t *testing.T) {
	t.Parallel()
	requested, closed := make(chan struct{}), make(chan struct{})
	c := newRawClient(t, fetch.Options{HeaderTimeout: time.Hour}, func(conn net.Conn, _ *http.Request, _ int) {
		close(requested)
		waitForClose(conn)
		close(closed)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-requested
		cancel()
	}()
	_, err := c.Open(ctx, parse(t, c.url))
	is.New(t).True(errors.Is(err, context.Canceled))
	receive(t, closed)
}

// testFile is the file of a raw origin.
const testFile = "0123456789abcdefghijklmnopqrstuvwxyz"

// testModified is a time before that of the test.
const testModified = "Fri, 02 Jan 2026 03:04:05 GMT"

// writePartial writes a 206 response from first on, truncated after n bytes.
func writePartial(conn net.Conn, first, n int) {
	header := fmt.Sprintf("ETag: \"1\"\r\nContent-Range: bytes %d-35/36\r\nContent-Length: %d\r\n", first, len(testFile)-first)
	io.WriteString(conn, "HTTP/1.1 206 Partial Content\r\n"+header+"\r\n"+testFile[first:min(len(testFile), first+n)])
}

// writeFull writes a 200 response, truncated after n bytes.
func writeFull(conn net.Conn, n int) {
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: %d\r\n\r\n%s", len(testFile), testFile[:min(n, len(testFile))])
}

// rangeStart returns the first position of a Range request, or 0.
func rangeStart(t *testing.T, r *http.Request) int {
	t.Helper()
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok {
		return 0
	}
	first, err := strconv.Atoi(strings.TrimSuffix(text, "-"))
	if err != nil || !strings.HasSuffix(text, "-") {
		t.Errorf("Range: %s", r.Header.Get("Range"))
	}
	if validator := r.Header.Get("If-Range"); validator != `"1"` && validator != testModified {
		t.Errorf("If-Range: %s", validator)
	}
	return first
}

func TestBody_ResumesAfterTruncation(t *testing.T) {
	t.Parallel()
	for each := range len(testFile) {
		t.Run(fmt.Sprintf("every %d bytes", each+1), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var seen sync.Map
			c := newRawClient(t, fetch.Options{}, func(conn net.Conn, r *http.Request, _ int) {
				first := rangeStart(t, r)
				_, repeated := seen.LoadOrStore(fmt.Sprint(r.URL.Path, first), true)
				switch {
				case r.URL.Path == "/":
					io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: /moved\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				case first == 0:
					writeFull(conn, each+1)
				case !repeated:
					io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
				default:
					writePartial(conn, first, each+1)
				}
			})
			is.Equal(must(c.read(t, c.url+"/"))(t), testFile)
		})
	}
}

func TestBody_Resumes(t *testing.T) {
	t.Parallel()
	cut := func(n int) string { return strings.TrimSuffix(full(`"1"`, testFile), testFile[n:]) }
	for name, responses := range map[string][]string{
		"from complete responses": {cut(10), cut(20), cut(30), full(`"1"`, testFile)},
		"a file of unknown size, with more than its Content-Range": {
			"200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
			"206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 4-35/36\r\n\r\n" + testFile[4:] + "excess",
		},
		"in parts of less than the requested range": {
			cut(5), partial(`"1"`, "bytes 5-14/36", testFile[5:15]), partial(`"1"`, "bytes 15-35/36", testFile[15:]),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRawClient(t, fetch.Options{}, respondWith(nil, responses...))
			is.New(t).Equal(must(c.read(t, c.url))(t), testFile)
		})
	}
}

// A file of unknown size may be interrupted at its end. The last byte is then
// requested again, because a 416 response for no byte would prove nothing.
func TestBody_ResumeAtEndOfFile(t *testing.T) {
	t.Parallel()
	const (
		notSatisfiable = "416 No\r\nContent-Range: bytes */5\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"
		complete       = "200 OK\r\nETag: \"1\"\r\n"
	)
	for name, c := range map[string]struct {
		responses []string
		want      string // empty if the file is truncated
	}{
		"last byte":         {[]string{partial(`"1"`, "bytes 4-4/5", "4")}, "01234"},
		"other ETag":        {[]string{partial(`"2"`, "bytes 4-4/5", "4")}, ""},
		"longer":            {[]string{partial(`"1"`, "bytes 4-5/6", "45")}, "012345"},
		"416":               {[]string{notSatisfiable}, ""},
		"416, same file":    {[]string{notSatisfiable, complete + "Content-Length: 5\r\n\r\n01234"}, "01234"},
		"416, other file":   {[]string{notSatisfiable, "200 OK\r\nETag: \"2\"\r\nContent-Length: 5\r\n\r\n01234"}, ""},
		"complete, chunked": {[]string{complete + "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n\r\n"}, "01234"},
		"complete, longer":  {[]string{complete + "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n0\r\n\r\n"}, "012345"},
		"complete, shorter": {[]string{complete + "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n0\r\n\r\n"}, ""},
		"shorter":           {[]string{complete + "Content-Length: 4\r\n\r\n0123"}, ""},
		"other status":      {[]string{"404 No\r\nContent-Range: bytes */5\r\n\r\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			responses := append([]string{complete + "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n"}, c.responses...)
			client := newRawClient(t, fetch.Options{}, respondWith(requests, responses...))
			content, err := client.read(t, client.url)
			<-requests
			is.Equal(rangeStart(t, <-requests), 4)
			if c.want != "" {
				is.NoErr(err)
				is.Equal(content, c.want)
				return
			}
			is.True(errors.Is(err, io.ErrUnexpectedEOF))
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(content, "01234")
		})
	}
}

func TestBody_ResumeFails(t *testing.T) {
	t.Parallel()
	rest := func(header string) string { // of testFile
		return "206 Yes\r\nContent-Length: 31\r\n" + header + "\r\n" + testFile[5:]
	}
	truncated := func(response string) string { return strings.TrimSuffix(response, testFile[5:]) }
	const contentRange = "Content-Range: bytes 5-35/36\r\n"
	for name, c := range map[string]struct {
		etag, resume string
		requests     int
	}{
		"no ETag":             {`none`, "", 1},
		"weak ETag":           {`W/"1"`, "", 1},
		"200, other ETag":     {`"1"`, full(`"2"`, testFile), 2},
		"200, truncated":      {`"1"`, truncated(full(`"1"`, testFile)), 4},
		"412":                 {`"1"`, "412 No\r\n\r\n", 2},
		"other ETag":          {`"1"`, rest("ETag: \"2\"\r\n" + contentRange), 2},
		"other position":      {`"1"`, partial(`"1"`, "bytes 4-35/36", testFile[4:]), 2},
		"no ETag in 206":      {`"1"`, rest(contentRange), 2},
		"other size":          {`"1"`, rest("ETag: \"1\"\r\nContent-Range: bytes 5-35/37\r\n"), 2},
		"unknown size in 206": {`"1"`, rest("ETag: \"1\"\r\nContent-Range: bytes 5-35/*\r\n"), 3},
		"no Content-Range":    {`"1"`, rest("ETag: \"1\"\r\n"), 2},
		"Content-Encoding":    {`"1"`, rest("ETag: \"1\"\r\nContent-Encoding: gzip\r\n" + contentRange), 2},
		"multipart":           {`"1"`, rest("ETag: \"1\"\r\nContent-Type: multipart/byteranges; boundary=x\r\n"), 2},
		"404":                 {`"1"`, "404 Not Found\r\n\r\n", 2},
		"500":                 {`"1"`, "500 No\r\n\r\n", 4},
		"truncated at once":   {`"1"`, truncated(rest("ETag: \"1\"\r\n" + contentRange)), 4},
		"empty 206":           {`"1"`, partial(`"1"`, "bytes 5-35/36", ""), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 100)
			first := truncated(full(c.etag, testFile))
			client := newRawClient(t, fetch.Options{}, respondWith(requests, first, c.resume))
			content, err := client.read(t, client.url)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(errors.Is(err, io.ErrUnexpectedEOF))
			is.Equal(content, testFile[:5])
			is.Equal(len(requests), c.requests)
			<-requests
			if c.requests > 1 {
				is.Equal(rangeStart(t, <-requests), 5)
			}
		})
	}
}

// writeStalledPart writes the header and the first n bytes of a range of zeros
// that extends to size.
func writeStalledPart(conn net.Conn, first, n, size int) {
	status, contentRange := "200 OK", ""
	if first > 0 {
		status, contentRange = "206 Partial Content", fmt.Sprintf("Content-Range: bytes %d-%d/%d\r\n", first, size-1, size)
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nETag: \"1\"\r\n%sContent-Length: %d\r\n\r\n", status, contentRange, size-first)
	conn.Write(make([]byte, n))
}

func TestBody_ResumesAfterIdleTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ part, parts, requests int }{
		"at the default limit":          {1, 3, 3},
		"above the limit":               {1, 100, 3},
		"with enough progress":          {1 << 20, 6, 6},
		"without quite enough progress": {1<<20 - 1, 6, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) {
				size := c.part * c.parts
				var requests atomic.Int64
				client := newPipeClient(t, fetch.Options{}, func(conn net.Conn, r *http.Request, n int) {
					requests.Add(1)
					first := rangeStart(t, r)
					is.Equal(first, (n-1)*c.part)
					writeStalledPart(conn, first, c.part, size)
					waitForClose(conn)
				})
				content, err := client.read(t, pipeURL)
				complete := c.requests == c.parts
				is.Equal(err == nil, complete)
				is.Equal(errors.Is(err, exports.ErrTimeout), !complete)
				is.Equal(len(content), c.requests*c.part)
				is.Equal(requests.Load(), int64(c.requests))
			})
		})
	}
}
