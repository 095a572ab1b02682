package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func TestOpen_redirects(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Method != "GET" {
			t.Errorf("%s with Referer %q", r.Method, r.Header.Get("Referer"))
		}
		hops, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if hops == 0 {
			io.WriteString(w, "content")
			return
		}
		statuses := []int{301, 302, 303, 307, 308}
		w.Header().Set("Location", fmt.Sprintf("../%d", hops-1))
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(statuses[hops%len(statuses)])
	})
	allowed := []string{host}
	c := newClient(t, fetch.Options{AllowedHosts: allowed})
	content, err := c.read(t, address+"/5")
	is.NoErr(err)
	is.Equal(content, "content")
	_, err = c.read(t, address+"/6")
	is.True(errors.Is(err, exports.ErrFailed)) // one too many

	_, err = newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: -1}).read(t, address+"/1")
	is.True(errors.Is(err, exports.ErrFailed)) // none are followed
	_, err = newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: 6}).read(t, address+"/6")
	is.NoErr(err)
}

func TestOpen_redirectsToWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	var target string
	_, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Location", "/second")
		} else {
			w.Header().Set("Location", target)
		}
		w.WriteHeader(http.StatusFound)
	})
	_, port, _ := net.SplitHostPort(host)
	names := resolver(map[string][]string{
		"origin.example.test":  {"127.0.0.1"},
		"private.example.test": {"10.0.0.1"},
		"other.example.test":   {"127.0.0.1"},
	})
	targets := append([]string{
		"http://private.example.test/", "http://other.example.test/", "//other.example.test/", "https://private.example.test/",
		"http://other.example.test:" + port + "/", // the allowed machine by another name
		"http://127.0.0.1:" + port + "/",          // and by its address
		"http://origin.example.test/",             // an allowed name on another port
		"file:///etc/passwd", "ftp://origin.example.test/", "javascript:0", "mailto:a@example.test", "http:///",
		"http://user:password@origin.example.test:" + port + "/",
	}, refusedSpellingsOfRedirects()...)
	for _, target = range targets {
		c := newClient(t, fetch.Options{AllowedHosts: []string{"origin.example.test:" + port}, Resolver: names})
		_, err := c.read(t, "http://origin.example.test:"+port+"/")
		if !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", target, err)
		}
		if dialled := c.dials(); len(dialled) != 1 || dialled[0] != host {
			t.Errorf("%s: dialled %v", target, dialled)
		}
		c.CloseIdleConnections()
	}
}

func refusedSpellingsOfRedirects() []string {
	targets := []string{"http://169.254.169.254/latest/meta-data/", "//169.254.169.254/"}
	for _, address := range refusedAddresses {
		targets = append(targets, literal(address))
	}
	for _, address := range refusedSpellings {
		if strings.HasPrefix(strings.ToLower(address), "http://") && address != "http://" {
			targets = append(targets, address)
		}
	}
	return targets
}

func TestOpen_allowedNameOnAnyAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{
		AllowedHosts: []string{"intranet.example.test"},
		MaxAttempts:  1,
		Resolver:     resolver(map[string][]string{"intranet.example.test": {"10.0.0.1"}}),
	})
	_, err := c.read(t, "http://intranet.example.test:8080/")
	is.True(errors.Is(err, fetch.ErrIntercepted)) // let through
	is.Equal(c.dials(), []string{"10.0.0.1:8080"})
}

func TestOpen_tries(t *testing.T) {
	t.Parallel()
	for status, transient := range map[int]bool{
		400: false, 401: false, 403: false, 404: false, 410: false, 416: false,
		408: true, 429: true, 500: true, 502: true, 503: true, 504: true,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := 0
			address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests < 3 || r.URL.Path == "/always" {
					w.WriteHeader(status)
					return
				}
				io.WriteString(w, "content")
			})
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
			content, err := c.read(t, address)
			is.Equal(err == nil, transient)
			is.Equal(content == "content", transient)

			requests = 0
			_, err = c.read(t, address+"/always")
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(requests == 3, transient)
		})
	}
}

func TestOpen_connectionLostBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(net.Conn){
		"closed":             func(net.Conn) {},
		"reset":              reset,
		"reset after header": func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"); reset(conn) },
		"closed in header":   func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, n int) {
				if n < 3 {
					lose(conn)
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent")
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
			is.NoErr(err)
			is.Equal(content, "content")

			_, err = newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxAttempts: 1}).read(t, address)
			is.NoErr(err) // the origin has recovered
		})
	}
}

func TestOpen_nobodyListens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := httptest.NewServer(nil)
	host := server.Listener.Addr().String()
	server.Close()
	var log strings.Builder
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, Logger: debugLogger(&log)})
	_, err := c.read(t, "http://"+host+"/")
	is.True(errors.Is(err, exports.ErrFailed))
	is.Equal(len(c.dials()), 3)
	is.Equal(strings.Count(log.String(), "retrying fetch"), 2)
}

func TestOpen_unknownName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log strings.Builder
	c := newClient(t, fetch.Options{Resolver: resolver(map[string][]string{}), Logger: debugLogger(&log)})
	_, err := c.read(t, "http://nowhere.example.test/")
	is.True(errors.Is(err, exports.ErrFailed))
	is.Equal(log.String(), "") // a second lookup would tell the same
}

func TestOpen_retryAfter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	requests := 0
	address, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "content")
	})
	began := time.Now()
	_, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
	is.NoErr(err)
	is.True(time.Since(began) >= time.Second)
}

func TestOpen_timeIsUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	u := parse(t, address)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Open(ctx, u)
	is.True(errors.Is(err, exports.ErrTimeout))
	is.True(errors.Is(err, context.DeadlineExceeded))

	ctx2, cancel2 := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel2(exports.ErrTimeout) })
	_, err = c.Open(ctx2, u)
	is.True(errors.Is(err, exports.ErrTimeout)) // a caller's own clock
	is.True(!errors.Is(err, exports.ErrFailed))

	ctx3, cancel3 := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel3)
	_, err = c.Open(ctx3, u)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(errors.Is(err, context.Canceled))
}

func TestOpen_hungOrigin(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"before the header": "",
		"in the header":     "HTTP/1.1 200 OK\r\nContent-",
		"after the header":  "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			freed := make(chan struct{})
			address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, n int) {
				if n > 1 {
					t.Error("asked again")
				}
				io.WriteString(conn, head)
				gone(conn)
				close(freed)
			})
			c := newClient(t, fetch.Options{
				AllowedHosts:  []string{host},
				HeaderTimeout: 100 * time.Millisecond,
				IdleTimeout:   100 * time.Millisecond,
			})
			_, err := c.read(t, address)
			is.True(errors.Is(err, exports.ErrTimeout))
			receive(t, freed)
		})
	}
}
