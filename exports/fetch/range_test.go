package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func serveTestFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(testFile))
}

func testRange(offset, length int) exports.Part {
	return exports.Part{Validator: `"1"`, Size: int64(len(testFile)), Offset: int64(offset), Length: int64(length)}
}

func (c *client) readRange(t testing.TB, rawURL string, r exports.Part) (string, error) {
	t.Helper()
	body, err := c.OpenRange(t.Context(), parse(t, rawURL), r)
	if err != nil {
		return "", err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	return string(content), err
}

func TestOpener_OpenRange(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var header atomic.Pointer[http.Header]
	c := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
		header.Store(&r.Header)
		serveTestFile(w, r)
	})
	for offset := range len(testFile) {
		for length := range len(testFile) - offset + 1 {
			content := must(c.readRange(t, c.url, testRange(offset, length)))(t)
			is.Equal(content, testFile[offset:offset+length])
			want := fmt.Sprintf("bytes=%d-%d", offset, offset+max(length, 1)-1)
			switch {
			case length == len(testFile):
				want = ""
			case offset+length == len(testFile):
				want = fmt.Sprintf("bytes=%d-", offset)
			}
			is.Equal(header.Load().Get("Range"), want)
			is.Equal(header.Load().Get("If-Range") != "", want != "")
		}
	}
	// All responses were read to their end. On a busy machine net/http gives up a
	// connection whose writer reports late.
	is.True(len(c.dials()) < 10)
	is.Equal(must(c.readRange(t, c.url, testRange(len(testFile), 0)))(t), "")
}

// partial and full return responses for respondWith.
func partial(etag, contentRange, content string) string {
	return fmt.Sprintf("206 Yes\r\nETag: %s\r\nContent-Range: %s\r\nContent-Length: %d\r\n\r\n%s", etag, contentRange, len(content), content)
}

func full(etag, content string) string {
	return fmt.Sprintf("200 OK\r\nETag: %s\r\nContent-Length: %d\r\n\r\n%s", etag, len(content), content)
}

func TestOpener_OpenRangeOfLyingOrigin(t *testing.T) {
	t.Parallel()
	shrunk, grown, unlike := testFile[:8], testFile+"!", strings.ToUpper(testFile)
	for name, c := range map[string]struct {
		responses []string
		err       error // nil if the content is that of the range
		requests  int
	}{
		"honest":                     {[]string{partial(`"1"`, "bytes 10-19/36", testFile[10:20])}, nil, 1},
		"ignores Range":              {[]string{full(`"1"`, testFile)}, nil, 1},
		"ignores Range, chunked":     {[]string{"200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n24\r\n" + testFile + "\r\n0\r\n\r\n"}, nil, 1},
		"ignores Range, truncated":   {[]string{strings.TrimSuffix(full(`"1"`, testFile), testFile[5:]), full(`"1"`, testFile)}, nil, 2},
		"ignores Range and length":   {[]string{"200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + testFile[:5] + "\r\n0\r\n\r\n"}, exports.ErrFailed, 4},
		"more than the range":        {[]string{partial(`"1"`, "bytes 10-35/36", testFile[10:])}, nil, 1},
		"less than the range":        {[]string{partial(`"1"`, "bytes 10-13/36", testFile[10:14]), partial(`"1"`, "bytes 14-19/36", testFile[14:20])}, nil, 2},
		"less, chunked, with excess": {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 10-13/36\r\n\r\n" + testFile[10:14] + "excess", partial(`"1"`, "bytes 14-19/36", testFile[14:20])}, nil, 2},
		"chunked":                    {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 10-19/36\r\nTransfer-Encoding: chunked\r\n\r\na\r\n" + testFile[10:20] + "\r\n0\r\n\r\n"}, nil, 1},
		"until close":                {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 10-19/36\r\n\r\n" + testFile[10:20] + "excess"}, nil, 1},
		"truncated, then 503":        {[]string{strings.TrimSuffix(partial(`"1"`, "bytes 10-19/36", testFile[10:20]), testFile[14:20]), "503 No\r\n\r\n", partial(`"1"`, "bytes 14-19/36", testFile[14:20])}, nil, 3},
		"unknown size":               {[]string{partial(`"1"`, "bytes 10-19/*", testFile[10:20]), full(`"1"`, testFile)}, nil, 2},
		"unknown size, changed":      {[]string{partial(`"1"`, "bytes 10-19/*", testFile[10:20]), full(`"2"`, unlike)}, exports.ErrChanged, 2},
		"416":                        {[]string{notSatisfiable, full(`"1"`, testFile)}, nil, 2},
		"416 always":                 {[]string{notSatisfiable}, exports.ErrFailed, 2},
		"changed, honors If-Range":   {[]string{full(`"2"`, unlike)}, exports.ErrChanged, 1},
		"changed, ignores If-Range":  {[]string{partial(`"2"`, "bytes 10-19/36", unlike[10:20])}, exports.ErrChanged, 1},
		"changed, same ETag and 206": {[]string{partial(`"1"`, "bytes 10-19/37", grown[10:20])}, exports.ErrChanged, 1},
		"changed, same ETag and 200": {[]string{full(`"1"`, grown)}, exports.ErrChanged, 1},
		"shrunk":                     {[]string{notSatisfiable, full(`"2"`, shrunk)}, exports.ErrChanged, 2},
		"shrunk, same ETag":          {[]string{notSatisfiable, full(`"1"`, shrunk)}, exports.ErrChanged, 2},
		"weak ETag":                  {[]string{partial(`W/"1"`, "bytes 10-19/36", testFile[10:20])}, exports.ErrChanged, 1},
		"no ETag":                    {[]string{"206 Yes\r\nContent-Range: bytes 10-19/36\r\nContent-Length: 10\r\n\r\n" + testFile[10:20]}, exports.ErrChanged, 1},
		"412":                        {[]string{"412 Precondition Failed\r\n\r\n"}, exports.ErrChanged, 1},
		"404":                        {[]string{"404 Not Found\r\n\r\n"}, exports.ErrGone, 1},
		"410 after 503":              {[]string{"503 No\r\n\r\n", "410 Gone\r\n\r\n"}, exports.ErrGone, 2},
		"404 during the read":        {[]string{partial(`"1"`, "bytes 10-13/36", testFile[10:14]), "404 Not Found\r\n\r\n"}, exports.ErrGone, 2},
		"changed during the read":    {[]string{partial(`"1"`, "bytes 10-13/36", testFile[10:14]), partial(`"2"`, "bytes 14-19/36", unlike[14:20])}, exports.ErrChanged, 2},
		"403":                        {[]string{"403 Forbidden\r\n\r\n"}, exports.ErrFailed, 1},
		"500":                        {[]string{"500 No\r\n\r\n"}, exports.ErrFailed, 3},
		"other position":             {[]string{partial(`"1"`, "bytes 9-18/36", testFile[9:19])}, exports.ErrFailed, 1},
		"other Content-Length":       {[]string{partial(`"1"`, "bytes 10-19/36", testFile)}, exports.ErrFailed, 1},
		"no Content-Range":           {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n" + testFile[10:20]}, exports.ErrFailed, 1},
		"other unit":                 {[]string{partial(`"1"`, "lines 10-19/36", testFile[10:20])}, exports.ErrFailed, 1},
		"multipart":                  {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Type: multipart/byteranges; boundary=x\r\n\r\n--x\r\nContent-Range: bytes 10-19/36\r\n\r\n" + testFile[10:20] + "\r\n--x--\r\n"}, exports.ErrFailed, 1},
		"Content-Encoding":           {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Encoding: gzip\r\nContent-Range: bytes 10-19/36\r\n\r\n" + testFile[10:20]}, exports.ErrFailed, 1},
		"nothing":                    {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 10-19/36\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, io.ErrUnexpectedEOF, 3},
		"redirect to a private host": {[]string{"302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"}, exports.ErrForbidden, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			client := newRawClient(t, fetch.Options{}, respondWith(requests, c.responses...))
			content, err := client.readRange(t, client.url, testRange(10, 10))
			is.Equal(len(requests), c.requests)
			first := <-requests
			is.Equal(first.Header.Get("Range"), "bytes=10-19")
			is.Equal(first.Header.Get("If-Range"), `"1"`)
			for range len(requests) { // the rest of the range, or the complete file
				value := (<-requests).Header.Get("Range")
				is.True(value == "" || strings.HasSuffix(value, "-19"))
			}
			if c.err == nil {
				is.NoErr(err)
				is.Equal(content, testFile[10:20])
				return
			}
			is.True(errors.Is(err, c.err))
			is.Equal(errors.Is(err, exports.ErrChanged), c.err == exports.ErrChanged)
			is.Equal(errors.Is(err, exports.ErrGone), c.err == exports.ErrGone)
			is.True(strings.HasPrefix(testFile[10:20], content))
		})
	}
}

func TestOpener_OpenRangeByLastModified(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	modified := must(http.ParseTime(testModified))(t)
	for name, c := range map[string]struct {
		etag     string
		modified time.Time
		changed  bool
	}{
		"same":                  {"", modified, false},
		"same with weak ETag":   {`W/"2"`, modified, false},
		"same with strong ETag": {`"2"`, modified, false}, // the origin now has both
		"later":                 {"", modified.Add(time.Second), true},
		"earlier":               {"", modified.Add(-time.Second), true},
		"none":                  {"", time.Time{}, true},
		"none but ETag":         {`"1"`, time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			client := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
				is.Equal(r.Header.Get("If-Range"), testModified)
				if c.etag != "" {
					w.Header().Set("ETag", c.etag)
				}
				http.ServeContent(w, r, "", c.modified, strings.NewReader(testFile))
			})
			r := testRange(10, 10)
			r.Validator = testModified
			content, err := client.readRange(t, client.url, r)
			is.Equal(errors.Is(err, exports.ErrChanged), c.changed)
			is.Equal(content == testFile[10:20], !c.changed)
		})
	}
}

// A range of a file that the origin sends completely is read without what
// follows it.
func TestOpener_OpenRangeReadsNoMoreThanRange(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const size, offset = 256 << 20, 4 << 20
	sent := make(chan int64, 1)
	c := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", fmt.Sprint(size))
		n, _ := io.Copy(w, io.NewSectionReader(repeatedContent{make([]byte, 1<<20), size}, 0, size))
		sent <- n
	})
	content := must(c.readRange(t, c.url, exports.Part{Validator: `"1"`, Size: size, Offset: offset, Length: 100}))(t)
	is.Equal(content, string(make([]byte, 100)))
	is.True(<-sent < size/4) // the range and socket buffers
}

// An origin without ranges may need minutes to send what precedes the range.
func TestOpener_OpenRangeReturnsBeforeRangeArrives(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		c := newPipeClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, _ int) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: %d\r\n\r\n", len(testFile))
			for i := range testFile {
				if i > 0 {
					time.Sleep(10 * time.Second)
				}
				io.WriteString(conn, testFile[i:i+1])
			}
		})
		start := time.Now()
		body := must(c.OpenRange(t.Context(), parse(t, pipeURL), testRange(10, 26)))(t)
		defer body.Close()
		is.Equal(time.Since(start), time.Duration(0))
		is.Equal(string(must(io.ReadAll(body))(t)), testFile[10:])
	})
}

func TestOpener_OpenRangeOfAnyPart(t *testing.T) {
	t.Parallel()
	empty := []string{full(`"1"`, "")}
	for name, c := range map[string]struct {
		part      exports.Part
		responses []string
		content   string
		err       error
	}{
		"without validator": {exports.Part{Size: 36, Length: 10}, []string{full("", testFile)}, "", exports.ErrChanged},
		"empty file":        {exports.Part{Validator: `"1"`}, empty, "", nil},
		"other empty file":  {exports.Part{Validator: `"2"`}, empty, "", exports.ErrChanged},
		"emptied file":      {exports.Part{Validator: `"1"`, Size: 1, Offset: 1}, empty, "", exports.ErrChanged},
		"size unknown until the first response": {
			exports.Part{Validator: `"1"`, Size: -1, Offset: 10, Length: 10},
			[]string{partial(`"1"`, "bytes 10-10/36", "a"), partial(`"1"`, "bytes 11-19/37", testFile[11:20])},
			"a", exports.ErrChanged,
		},
		// The complete file has become too large for this process, and ends before the part.
		"above MaxBytes": {
			exports.Part{Validator: `"1"`, Size: 1000, Offset: 500, Length: 100},
			[]string{"200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"1\"\r\n\r\n5\r\nhello\r\n"},
			"", exports.ErrFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			client := newRawClient(t, fetch.Options{MaxBytes: 100}, respondWith(requests, c.responses...))
			content, err := client.readRange(t, client.url, c.part)
			is.Equal(content, c.content)
			is.True(errors.Is(err, c.err))
			is.Equal(len(requests), len(c.responses))
		})
	}
}

// respondWith returns a handler that sends the n-th response on the n-th
// connection, and the last one from then on. An empty response closes the
// connection. It sends the requests to a channel unless that is nil.
func respondWith(requests chan<- *http.Request, responses ...string) rawHandler {
	return func(conn net.Conn, r *http.Request, n int) {
		if requests != nil {
			requests <- r
		}
		if response := responses[min(n, len(responses))-1]; response != "" {
			io.WriteString(conn, "HTTP/1.1 "+response)
		}
	}
}

const (
	firstByte      = "206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 0-0/36\r\nContent-Length: 1\r\n\r\n0"
	notSatisfiable = "416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n"
	complete       = "200 OK\r\nETag: \"1\"\r\nContent-Length: 36\r\n\r\n" + testFile
)

func TestOpener_Stat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		responses []string
		size      int64
		validator string
		requests  int
	}{
		"206":                       {[]string{firstByte}, 36, `"1"`, 1},
		"206, chunked":              {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 0-0/36\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n0\r\n\r\n"}, 36, `"1"`, 1},
		"206 of more than one byte": {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 0-35/36\r\nContent-Length: 36\r\n\r\n" + testFile}, 36, `"1"`, 1},
		"206 of unknown size":       {[]string{"206 Yes\r\nETag: \"0\"\r\nContent-Range: bytes 0-0/*\r\nContent-Length: 1\r\n\r\n0", complete}, 36, `"1"`, 2},
		"200":                       {[]string{complete}, 36, `"1"`, 1},
		"200 of unknown size":       {[]string{"200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n"}, -1, `"1"`, 1},
		"200 without content":       {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 36\r\n\r\n"}, 36, `"1"`, 1},
		"200 of empty file":         {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 1},
		"416 of empty file":         {[]string{notSatisfiable, "200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 2},
		"206 of empty file":         {[]string{"206 Yes\r\nContent-Range: bytes 0-0/0\r\nContent-Length: 0\r\n\r\n", "200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 2},
		"encoded for the upload":    {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 36\r\nContent-Encoding: identity, AWS-chunked\r\n\r\n"}, 36, `"1"`, 1},
		"416 of other file":         {[]string{notSatisfiable, complete}, 36, `"1"`, 2},
		"redirect":                  {[]string{"302 Found\r\nLocation: /x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", firstByte}, 36, `"1"`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			client := newRawClient(t, fetch.Options{}, respondWith(requests, c.responses...))
			file := must(client.Stat(t.Context(), parse(t, client.url)))(t)
			is.Equal(file.Size, c.size)
			is.Equal(file.Validator, c.validator)
			is.Equal(file.Body, nil)
			is.Equal(len(requests), c.requests)
			first := <-requests
			is.Equal(first.Method, http.MethodGet)
			is.Equal(first.Header.Get("Range"), "bytes=0-0")
			is.Equal(first.Header.Get("If-Range"), "")
			is.Equal(first.Header.Get("Accept-Encoding"), "identity")
			if c.responses[0] == notSatisfiable {
				is.Equal((<-requests).Header.Get("Range"), "")
			}
		})
	}
}

func TestOpener_StatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		response string
		requests int
		gone     bool
	}{
		"404":                  {"404 Not Found\r\n\r\n", 1, true},
		"410":                  {"410 Gone\r\nContent-Encoding: gzip\r\n\r\n", 1, true},
		"412":                  {"412 Precondition Failed\r\n\r\n", 1, false},
		"500":                  {"500 No\r\n\r\n", 3, false},
		"416":                  {notSatisfiable, 2, false},
		"206 of unknown size":  {"206 Yes\r\nContent-Range: bytes 0-0/*\r\nContent-Length: 1\r\n\r\n0", 2, false},
		"206 of other byte":    {"206 Yes\r\nContent-Range: bytes 1-1/36\r\nContent-Length: 1\r\n\r\n0", 1, false},
		"206 of other length":  {"206 Yes\r\nContent-Range: bytes 0-0/36\r\nContent-Length: 2\r\n\r\n01", 1, false},
		"206 of no range":      {"206 Yes\r\nContent-Length: 1\r\n\r\n0", 1, false},
		"multipart":            {"206 Yes\r\nContent-Range: bytes 0-0/36\r\nContent-Length: 1\r\nContent-Type: Multipart/ByteRanges; boundary=x\r\n\r\n0", 1, false},
		"Content-Encoding":     {"206 Yes\r\nContent-Range: bytes 0-0/36\r\nContent-Length: 1\r\nContent-Encoding: br\r\n\r\n0", 1, false},
		"larger than MaxBytes": {"206 Yes\r\nContent-Range: bytes 0-0/1001\r\nContent-Length: 1\r\n\r\n0", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			client := newRawClient(t, fetch.Options{MaxBytes: 1000}, respondWith(requests, c.response))
			_, err := client.Stat(t.Context(), parse(t, client.url))
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(errors.Is(err, exports.ErrGone), c.gone)
			is.Equal(len(requests), c.requests)
		})
	}
	t.Run("forbidden", func(t *testing.T) {
		_, err := newClient(t, fetch.Options{}).Stat(t.Context(), parse(t, "http://127.0.0.1/"))
		is.New(t).True(errors.Is(err, exports.ErrForbidden))
	})
	t.Run("timeout", func(t *testing.T) {
		bubble(t, func(t *testing.T, is *is.I) {
			c := newPipeClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, _ int) { waitForClose(conn) })
			_, err := c.Stat(t.Context(), parse(t, pipeURL))
			is.True(errors.Is(err, exports.ErrTimeout))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = c.Stat(ctx, parse(t, pipeURL))
			is.True(errors.Is(err, exports.ErrTimeout))
			is.True(errors.Is(err, context.DeadlineExceeded))
		})
	})
}

// Stat describes a file as Open does. Both set Validator.
func TestOpener_DescribesFile(t *testing.T) {
	t.Parallel()
	const early, date = "Last-Modified: Sun, 06 Nov 1994 08:49:36 GMT\r\n", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	for name, c := range map[string]struct {
		header    string
		validator string
	}{
		"ETag":                             {"ETag: \"1\"\r\n", `"1"`},
		"ETag and Last-Modified":           {"ETag: \"1\"\r\n" + early + date, `"1"`},
		"weak ETag":                        {"ETag: W/\"1\"\r\n", ""},
		"malformed ETag":                   {"ETag: 1\r\n", ""},
		"weak ETag and Last-Modified":      {"ETag: W/\"1\"\r\n" + early + date, "Sun, 06 Nov 1994 08:49:36 GMT"},
		"Last-Modified":                    {early + date, "Sun, 06 Nov 1994 08:49:36 GMT"},
		"Last-Modified of RFC 850":         {"Last-Modified: Sunday, 06-Nov-94 08:49:36 GMT\r\n" + date, "Sunday, 06-Nov-94 08:49:36 GMT"},
		"Last-Modified in the same second": {"Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n" + date, ""},
		"Last-Modified after Date":         {"Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\r\n" + date, ""},
		"Last-Modified without Date":       {early, ""},
		"Last-Modified with invalid Date":  {early + "Date: today\r\n", ""},
		"invalid Last-Modified":            {"Last-Modified: yesterday\r\n" + date, ""},
		"nothing":                          {date, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			client := newRawClient(t, fetch.Options{}, func(conn net.Conn, r *http.Request, _ int) {
				const header = "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=plan.pdf\r\n"
				if r.Header.Get("Range") == "" {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s%sContent-Length: 9\r\n\r\n123456789", header, c.header)
					return
				}
				fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\n%s%sContent-Range: bytes 0-0/9\r\nContent-Length: 1\r\n\r\n1", header, c.header)
			})
			file := must(client.Stat(t.Context(), parse(t, client.url)))(t)
			is.Equal(file.Validator, c.validator)
			is.Equal(file.Name, "plan.pdf")
			opened := must(client.open(t, client.url))(t)
			file.Body = opened.Body
			is.Equal(opened, file)
		})
	}
}

func TestOpener_StatReusesConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, host := startOrigin(t, serveTestFile)
	redirecting, other := startOrigin(t, http.RedirectHandler(baseURL, http.StatusFound).ServeHTTP)
	c := newClient(t, fetch.Options{AllowedHosts: []string{host, other}})
	for _, u := range []string{baseURL, redirecting} {
		for range 10 {
			must(c.Stat(t.Context(), parse(t, u)))(t)
			time.Sleep(time.Millisecond)
		}
		is.True(len(c.dials()) <= 8) // of 30; a request may come before the connection is free again
	}
}

// TestOpener_ClosesStalledRedirect has a redirect whose body does not arrive during a download.
func TestOpener_ClosesStalledRedirect(t *testing.T) {
	t.Parallel()
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "0")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	head := "302 Found\r\nLocation: " + baseURL + "\r\nContent-Length: 10\r\n\r\n"
	c, closed := newHeldClient(t, fetch.Options{AllowedHosts: []string{host}}, head)
	file := must(c.Open(t.Context(), parse(t, c.url)))(t)
	defer file.Body.Close()
	receive(t, closed)
}

func TestOpener_StatClosesConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, closed := newHeldClient(t, fetch.Options{}, "200 OK\r\nContent-Length: 1000000\r\n\r\n0")
	is.Equal(must(c.Stat(t.Context(), parse(t, c.url)))(t).Size, int64(1_000_000))
	receive(t, closed)
}
