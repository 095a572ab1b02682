package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

const bearer = "Bearer secret-of-the-origin"

// signWith returns a Sign that adds bearer to every request and counts its calls.
func signWith(calls *atomic.Int32) func(*http.Request) error {
	return func(r *http.Request) error {
		calls.Add(1)
		r.Header.Set("Authorization", bearer)
		return nil
	}
}

func TestOpener_SignedFilesArePrivate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	u := must(url.Parse("https://files.example/plan.pdf"))(t)
	for _, options := range []fetch.Options{{}, {Sign: signWith(new(atomic.Int32))}} {
		o := must(fetch.New(&options))(t)
		is.Equal(o.IsPrivate(u), options.Sign != nil)
	}
}

func TestOptions_SignEachAttempt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls, requests atomic.Int32
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != bearer {
			t.Errorf("request %d is not signed", requests.Load())
		}
		if requests.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "content")
	})
	content := must(newClient(t, fetch.Options{AllowedHosts: []string{host}, Sign: signWith(&calls)}).read(t, baseURL))(t)
	is.Equal(content, "content")
	is.Equal(calls.Load(), int32(3))
}

// An interrupted file is resumed, and a range is requested, with credentials.
func TestOptions_SignResume(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls atomic.Int32
	baseURL, host := startRawOrigin(t, func(conn net.Conn, r *http.Request, n int) {
		if r.Header.Get("Authorization") != bearer {
			t.Errorf("connection %d: not signed", n)
		}
		if first, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			first, _, _ = strings.Cut(first, "-")
			at, _ := strconv.Atoi(first)
			writePartial(conn, `"1"`, at, len(testFile))
			return
		}
		writeFull(conn, `"1"`, 10)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, Sign: signWith(&calls)})
	content := must(c.read(t, baseURL))(t)
	is.Equal(content, testFile)
	body, err := c.OpenRange(t.Context(), parse(t, baseURL), exports.Part{Validator: `"1"`, Size: 36, Offset: 20, Length: 16})
	is.NoErr(err)
	defer body.Close()
	part := must(io.ReadAll(body))(t)
	is.Equal(string(part), testFile[20:])
	is.Equal(calls.Load(), int32(3))
}

// Only the registered scheme, host and port are signed, also not after a redirect
// to another host and back.
func TestOptions_SignAcrossRedirects(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	var home, away string
	handler := func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Host + r.URL.Path + " " + r.Header.Get("Authorization")
		switch r.URL.Path {
		case "/same":
			w.Header().Set("Location", "/file")
		case "/away":
			w.Header().Set("Location", away+"/file")
		case "/bounce":
			w.Header().Set("Location", away+"/back")
		case "/back":
			w.Header().Set("Location", home+"/file")
		default:
			io.WriteString(w, "content")
			return
		}
		w.WriteHeader(http.StatusFound)
	}
	home, homeHost := startOrigin(t, handler)
	away, awayHost := startOrigin(t, handler)
	_, port, _ := net.SplitHostPort(homeHost)
	var calls atomic.Int32
	c := newClient(t, fetch.Options{
		AllowedHosts: []string{homeHost, awayHost, "home.example.test"}, Sign: signWith(&calls),
		Resolver: fakeResolver(map[string][]string{"home.example.test": {"127.0.0.1"}}),
	})
	named := "home.example.test:" + port
	for _, test := range []struct {
		open string
		want []string
	}{
		{home + "/same", []string{homeHost + "/same " + bearer, homeHost + "/file " + bearer}},
		{home + "/away", []string{homeHost + "/away " + bearer, awayHost + "/file "}},
		{home + "/bounce", []string{homeHost + "/bounce " + bearer, awayHost + "/back ", homeHost + "/file "}},
		{"http://" + named + "/same", []string{named + "/same " + bearer, named + "/file " + bearer}},
		{"http://" + strings.ToUpper(named) + "/back", []string{named + "/back " + bearer, homeHost + "/file "}}, // another name
	} {
		is := is.New(t)
		content := must(c.read(t, test.open))(t)
		is.Equal(content, "content")
		var got []string
		for range test.want {
			got = append(got, <-seen)
		}
		is.Equal(got, test.want)
	}
}

func TestOptions_SignError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	errNoToken := errors.New("no token")
	baseURL, host := startOrigin(t, func(http.ResponseWriter, *http.Request) { t.Error("request without credentials") })
	for _, test := range []struct{ sign, want error }{
		{errNoToken, exports.ErrFailed},
		{fmt.Errorf("%w: %w", exports.ErrForbidden, errNoToken), exports.ErrForbidden},
	} {
		calls := 0
		_, err := newClient(t, fetch.Options{AllowedHosts: []string{host}, Sign: func(*http.Request) error {
			calls++
			return test.sign
		}}).read(t, baseURL)
		is.True(errors.Is(err, test.want))
		is.True(errors.Is(err, errNoToken))
		is.Equal(calls, 1)
	}
}

// A Sign that changes the host cannot bypass the URL policy.
func TestOptions_SignCannotChangeHost(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, host := startOrigin(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, OnlyAllowed: true, Sign: func(r *http.Request) error {
		r.URL.Host = "10.0.0.1"
		return nil
	}})
	_, err := c.read(t, baseURL)
	is.True(errors.Is(err, exports.ErrFailed))
	is.Equal(len(c.dials()), 0)
}

// Credentials of a request are in neither errors nor logs.
func TestOptions_SignLeaksNoCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const secret = "secret-of-the-query"
	var log bytes.Buffer
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://10.0.0.1/?"+r.URL.RawQuery, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/truncated":
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "content")
		case "/xml":
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", r.Header.Get("Authorization"))
		default:
			http.Error(w, r.Header.Get("Authorization"), http.StatusServiceUnavailable)
		}
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, Logger: debugLogger(&log), Sign: func(r *http.Request) error {
		r.Header.Set("Authorization", bearer)
		r.URL.RawQuery = url.Values{"signature": {secret}}.Encode()
		return nil
	}})
	for _, path := range []string{"/redirect", "/loop", "/reset", "/truncated", "/xml", "/status"} {
		_, err := c.read(t, baseURL+path)
		is.True(err != nil)
		fmt.Fprintln(&log, err)
	}
	is.True(strings.Contains(log.String(), "retrying fetch"))
	is.True(!strings.Contains(log.String(), "secret"))
}

// The code of an object store's error is logged, if it arrives soon.
func TestOpener_ErrorNamesCodeOfObjectStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `<?xml version="1.0"?><Error><Code>RequestTimeTooSkewed</Code>`)
		if r.URL.Path == "/stall" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	for _, path := range []string{"/", "/stall"} {
		_, err := c.read(t, baseURL+path)
		is.True(errors.Is(err, exports.ErrFailed))
		is.True(strings.Contains(err.Error(), "403 Forbidden from "+host+": RequestTimeTooSkewed"))
	}
}

func TestOpener_OnlyMissingObjectIsGone(t *testing.T) {
	t.Parallel()
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", r.URL.Path[1:])
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	for code, want := range map[string]bool{
		"": true, "NoSuchKey": true, "NoSuchVersion": true, "BlobNotFound": true, "NoSuchBucket": false, "XAdminUserNotFound": false,
	} {
		if _, err := c.read(t, baseURL+"/"+code); errors.Is(err, exports.ErrGone) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
}
