package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// respondWith returns a handler that sends the n-th response on the n-th
// connection, and the last one from then on. An empty response closes the
// connection.
func respondWith(requests chan<- *http.Request, responses ...string) rawHandler {
	return func(conn net.Conn, r *http.Request, n int) {
		requests <- r
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
		"206":                           {[]string{firstByte}, 36, `"1"`, 1},
		"206, chunked":                  {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 0-0/36\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n0\r\n\r\n"}, 36, `"1"`, 1},
		"206 of more than one byte":     {[]string{"206 Yes\r\nETag: \"1\"\r\nContent-Range: bytes 0-35/36\r\nContent-Length: 36\r\n\r\n" + testFile}, 36, `"1"`, 1},
		"206 of unknown size":           {[]string{"206 Yes\r\nETag: \"0\"\r\nContent-Range: bytes 0-0/*\r\nContent-Length: 1\r\n\r\n0", complete}, 36, `"1"`, 2},
		"200":                           {[]string{complete}, 36, `"1"`, 1},
		"200 of unknown size":           {[]string{"200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n"}, -1, `"1"`, 1},
		"200 without content":           {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 36\r\n\r\n"}, 36, `"1"`, 1},
		"200 of empty file":             {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 1},
		"416 of empty file":             {[]string{notSatisfiable, "200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 2},
		"206 of empty file":             {[]string{"206 Yes\r\nContent-Range: bytes 0-0/0\r\nContent-Length: 0\r\n\r\n", "200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"}, 0, `"1"`, 2},
		"encoded for the upload":        {[]string{"200 OK\r\nETag: \"1\"\r\nContent-Length: 36\r\nContent-Encoding: identity, AWS-chunked\r\n\r\n"}, 36, `"1"`, 1},
		"416 of other file":             {[]string{notSatisfiable, complete}, 36, `"1"`, 2},
		"redirect":                      {[]string{"302 Found\r\nLocation: /x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", firstByte}, 36, `"1"`, 2},
		"503":                           {[]string{"503 No\r\nContent-Length: 0\r\n\r\n", firstByte}, 36, `"1"`, 2},
		"connection lost before header": {[]string{"", "", firstByte}, 36, `"1"`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := make(chan *http.Request, 10)
			baseURL, host := startRawOrigin(t, respondWith(requests, c.responses...))
			file := must(newClient(t, fetch.Options{AllowedHosts: []string{host}}).Stat(t.Context(), parse(t, baseURL)))(t)
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
		"403":                  {"403 Forbidden\r\n\r\n", 1, false},
		"304":                  {"304 Not Modified\r\n\r\n", 1, false},
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
			baseURL, host := startRawOrigin(t, respondWith(requests, c.response))
			_, err := newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxBytes: 1000}).Stat(t.Context(), parse(t, baseURL))
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
		synctest.Test(t, func(t *testing.T) {
			c := newPipeClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, _ int) { waitForClose(conn) })
			_, err := c.Stat(t.Context(), parse(t, pipeURL))
			is.New(t).True(errors.Is(err, exports.ErrTimeout))
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
			baseURL, host := startRawOrigin(t, func(conn net.Conn, r *http.Request, _ int) {
				const header = "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=plan.pdf\r\n"
				if r.Header.Get("Range") == "" {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s%sContent-Length: 9\r\n\r\n123456789", header, c.header)
					return
				}
				fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\n%s%sContent-Range: bytes 0-0/9\r\nContent-Length: 1\r\n\r\n1", header, c.header)
			})
			client := newClient(t, fetch.Options{AllowedHosts: []string{host}})
			file := must(client.Stat(t.Context(), parse(t, baseURL)))(t)
			is.Equal(file.Validator, c.validator)
			is.Equal(file.Name, "plan.pdf")
			opened := must(client.open(t, baseURL))(t)
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
			_, err := c.Stat(t.Context(), parse(t, u))
			is.NoErr(err)
			time.Sleep(time.Millisecond)
		}
		is.True(len(c.dials()) <= 2)
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
	closed := make(chan struct{})
	redirecting, other := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
		fmt.Fprintf(conn, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 10\r\n\r\n", baseURL)
		waitForClose(conn)
		close(closed)
	})
	file := must(newClient(t, fetch.Options{AllowedHosts: []string{host, other}}).Open(t.Context(), parse(t, redirecting)))(t)
	defer file.Body.Close()
	receive(t, closed)
}

func TestOpener_StatClosesConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	closed := make(chan struct{})
	baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n0")
		waitForClose(conn)
		close(closed)
	})
	file := must(newClient(t, fetch.Options{AllowedHosts: []string{host}}).Stat(t.Context(), parse(t, baseURL)))(t)
	is.Equal(file.Size, int64(1_000_000))
	receive(t, closed)
}

func TestOpener_StatContextEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) { waitForClose(conn) })
	_, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).Stat(ctx, parse(t, baseURL))
	is.True(errors.Is(err, exports.ErrTimeout))
	is.True(errors.Is(err, context.DeadlineExceeded))
}
