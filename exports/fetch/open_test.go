package fetch_test

import (
	"compress/gzip"
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

func TestOpen_file(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen *http.Request
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Content-Type", "application/pdf")
		w.Header().Set("Content-Disposition", `attachment; filename="plan.pdf"; filename*=UTF-8''pl%C3%A4n.pdf`)
		w.Header().Set("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT")
		w.Header().Set("ETag", `W/"1"`)
		w.Header().Set("Set-Cookie", "a=b")
		io.WriteString(w, "content")
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	file, err := c.open(t, address+"/a%2Fb?c=d e#f")
	is.NoErr(err)
	is.Equal(file.Size, int64(7))
	is.Equal(file.Type, "application/pdf")
	is.Equal(file.Name, "plän.pdf")
	is.Equal(file.Modified, time.Date(1994, 11, 15, 12, 45, 26, 0, time.UTC))
	is.Equal(file.ETag, `W/"1"`)
	content, err := io.ReadAll(file.Body)
	is.NoErr(err)
	is.Equal(string(content), "content")
	n, err := file.Body.Read(make([]byte, 1))
	is.True(n == 0 && err == io.EOF) // and so it stays

	is.Equal(seen.RequestURI, "/a%2Fb?c=d%20e")
	is.Equal(seen.Header, http.Header{"User-Agent": {"canvasback"}, "Accept-Encoding": {"identity"}})
	_, err = c.read(t, address)
	is.NoErr(err)
	is.Equal(seen.Header.Get("Cookie"), "") // there is no jar
	is.Equal(c.dials(), []string{host})     // the connection was used again
}

// TestOptions_negativeIsTheDefault opens a file at the second try.
func TestOptions_negativeIsTheDefault(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]fetch.Options{
		"connect": {ConnectTimeout: -1},
		"header":  {HeaderTimeout: -1},
		"idle":    {IdleTimeout: -1},
		"tries":   {MaxAttempts: -1},
		"bytes":   {MaxBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var requests atomic.Int32
			address, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				io.WriteString(w, "con")
				w.(http.Flusher).Flush()
				io.WriteString(w, "tent")
			})
			o.AllowedHosts = []string{host}
			c := newClient(t, o)
			content, err := c.read(t, address)
			is.NoErr(err)
			is.Equal(content, "content")
			is.Equal(c.HeaderTimeout(), newOpener(t, fetch.Options{}).HeaderTimeout())
		})
	}
}

func TestOpen_emptyFile(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"with a length": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") },
		"in no chunks":  func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			address, host := serve(t, handler)
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
			is.NoErr(err)
			is.Equal(content, "")
		})
	}
}

// The environment's proxy is read once in a process, by whoever asks first.
// Nobody here does: with a proxy both requests would go to it.
func TestOpen_proxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	is := is.New(t)
	proxy, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("HTTPS_PROXY", proxy)
	t.Setenv("ALL_PROXY", proxy)
	c := newClient(t, fetch.Options{MaxAttempts: 1, Resolver: resolver(map[string][]string{"example.test": {"8.8.8.8"}})})
	_, err := c.read(t, "http://example.test/")
	is.True(errors.Is(err, fetch.ErrIntercepted))
	_, err = c.read(t, "https://example.test/")
	is.True(errors.Is(err, fetch.ErrIntercepted))
	is.Equal(c.dials(), []string{"8.8.8.8:80", "8.8.8.8:443"})
}

func TestOpen_answersThatAreNoFile(t *testing.T) {
	t.Parallel()
	answer := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Add(header[i], header[i+1])
			}
			w.WriteHeader(status)
			if status != http.StatusNoContent && status != http.StatusNotModified {
				io.WriteString(w, "1234")
			}
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"201":                       answer(201),
		"204":                       answer(204),
		"206 that nobody asked for": answer(206, "Content-Range", "bytes 0-3/4"),
		"300":                       answer(300, "Location", "/elsewhere"),
		"304":                       answer(304),
		"400":                       answer(400),
		"403":                       answer(403),
		"404":                       answer(404),
		"a redirect to nowhere":     answer(302),
		"a redirect to no address":  answer(302, "Location", "http://a b/?secret"),
		"a content coding":          answer(200, "Content-Encoding", "br"),
		"two content codings":       answer(200, "Content-Encoding", "identity", "Content-Encoding", "gzip"),
		"gzip although not asked for": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 1<<20))
			z.Close()
		},
		"a flood of header": func(w http.ResponseWriter, _ *http.Request) {
			for n := range 11 << 10 {
				w.Header().Set(fmt.Sprintf("Flood-%d", n), strings.Repeat("x", 1<<10))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := 0
			address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				handler(w, r)
			})
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
			_, err := c.read(t, address)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(!strings.Contains(err.Error(), "secret"))
			is.Equal(requests, 1) // another try could not help
		})
	}
}

func TestOpen_floodOfInterimAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
		for range 100 {
			fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", strings.Repeat("x", 1<<10))
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
	})
	_, err := newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxAttempts: 1}).read(t, address)
	is.True(errors.Is(err, exports.ErrFailed))
}

func TestOpen_errorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/next?hop=secret", http.StatusFound)
			return
		}
		w.Header().Set("Location", "http://127.0.0.1:1/last?hop=secret")
		w.WriteHeader(http.StatusFound)
	})
	var log strings.Builder
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, Logger: debugLogger(&log)})
	_, err := c.read(t, address+"/?token=secret")
	is.True(strings.Contains(err.Error(), address))                   // it says where it began
	is.True(strings.Contains(err.Error(), "http://127.0.0.1:1/last")) // and where it ended
	is.True(!strings.Contains(err.Error(), "secret"))

	_, err = c.read(t, "http://127.0.0.1:1/?token=secret")
	is.True(errors.Is(err, exports.ErrForbidden))
	is.True(!strings.Contains(err.Error(), "secret"))

	_, err = c.Open(t.Context(), parse(t, "http://user:secret@"+host+"/"))
	is.True(errors.Is(err, exports.ErrForbidden))
	is.True(!strings.Contains(err.Error(), "secret"))
	is.True(!strings.Contains(log.String(), "secret"))
}

func TestOpen_largestFile(t *testing.T) {
	t.Parallel()
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunks" {
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "0123456789")
	})
	for _, path := range []string{"/length", "/chunks"} {
		for limit, want := range map[int64]bool{1: false, 9: false, 10: true, 11: true, 0: true} {
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxBytes: limit})
			if _, err := c.open(t, address+path); (err == nil) != (want || path == "/chunks") {
				t.Errorf("opening %s, at most %d bytes: %v", path, limit, err)
			}
			content, err := c.read(t, address+path)
			if want != (err == nil) || want && content != "0123456789" || int64(len(content)) > max(limit, 10) {
				t.Errorf("%s, at most %d bytes: %q, %v", path, limit, content, err)
			}
			if !want && !errors.Is(err, exports.ErrFailed) {
				t.Errorf("%s, at most %d bytes: %v", path, limit, err)
			}
		}
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                      "",
		"attachment":                            "",
		"inline; filename=plan.pdf":             "plan.pdf",
		`attachment; filename="a b.pdf"`:        "a b.pdf",
		`attachment; FileName="a\"b.pdf"`:       `a"b.pdf`,
		`attachment; filename="résumé.pdf"`:     "résumé.pdf",
		"attachment; filename=my plan.pdf":      "my plan.pdf",
		"attachment; filename=my plan.pdf; x=y": "my plan.pdf",
		`filename="bare.pdf"`:                   "bare.pdf",
		"attachment; filename=ȺȺȺ pl a n":       "ȺȺȺ pl a n",
		"attachment; filename=":                 "",
		"ȺȺȺȺȺȺȺȺȺȺ filename=":                  "",
		`attachment; filename="a.pdf"; filename*=UTF-8''%E2%82%AC.pdf`: "€.pdf",
		`attachment; filename*=UTF-8''%E2%82%AC.pdf; filename="a.pdf"`: "€.pdf",
		`attachment; filename="a.pdf"; filename*=ISO-8859-1''%E4.pdf`:  "a.pdf",
		`attachment; filename="a.pdf"; filename*=UTF-8''%`:             "a.pdf",
		"attachment; filename=plan.pdf; filename=other.pdf":            "plan.pdf",
		`attachment; filename="../../etc/passwd"`:                      "../../etc/passwd", // cleaned where names are
	} {
		if got := fetch.FileName(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func TestEntityTag(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		`"a"`: `"a"`, `W/"a"`: `W/"a"`, `""`: `""`,
		``: ``, `a`: ``, `"`: ``, `"a`: ``, `a"`: ``, `w/"a"`: ``, `W/`: ``, `"a"b"`: ``, `"a", "b"`: ``,
	} {
		if got := fetch.EntityTag(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
