package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// TestOpener_CountsAndLogsRetries fetches from an origin that closes the first two
// connections and truncates the third response.
func TestOpener_CountsAndLogsRetries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log strings.Builder
	c := newRawClient(t, fetch.Options{
		Logger: debugLogger(&log), RequestID: func(context.Context) string { return "request-7" },
	}, func(conn net.Conn, r *http.Request, n int) {
		switch {
		case n < 3: // no response
		case n == 3:
			writeFull(conn, 10)
		default:
			writePartial(conn, rangeStart(t, r), len(testFile))
		}
	})
	file := must(c.Open(t.Context(), parse(t, c.url)))(t)
	defer file.Body.Close()
	is.Equal(string(must(io.ReadAll(file.Body))(t)), testFile)
	is.Equal(c.Stats(), fetch.Stats{Attempts: 4, Retries: 2, Resumes: 1})
	is.Equal(strings.Count(log.String(), "retrying fetch"), 3)
	is.Equal(strings.Count(log.String(), "requestId=request-7"), 3)
}

// A link whose file is a link could lead back to itself.
func TestOpener_CannotFetchLinks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	urls, host := startTaggedOrigin(t, 1, 10, nil)
	s := startLinkServer(t, host)
	s.restart(urls)
	link, _ := s.createLink(urls)
	_, err := newClient(t, fetch.Options{AllowedHosts: []string{strings.TrimPrefix(s.url, "http://")}}).open(t, link)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "unexpected status 403"))
}

func TestOpener_SendsTraceparentOnlyIfSet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	seen := make(chan []string, 2)
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values("Traceparent")
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	})
	type parentKey struct{}
	for _, c := range []struct {
		option func(context.Context) string
		want   []string
	}{
		{nil, nil},
		{func(context.Context) string { return "" }, nil},
		{func(ctx context.Context) string { return ctx.Value(parentKey{}).(string) }, []string{parent}},
	} {
		opener := newClient(t, fetch.Options{AllowedHosts: []string{host}, Traceparent: c.option})
		file := must(opener.Open(context.WithValue(t.Context(), parentKey{}, parent), parse(t, baseURL+"/moved")))(t)
		file.Body.Close()
		is.Equal(<-seen, c.want)
		is.Equal(<-seen, c.want) // by the target of the redirect
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
		`attachment; filename="a.pdf"; filename*=UTF-8''%E2%82%AC.pdf`:            "€.pdf",
		`attachment; filename*=UTF-8''%E2%82%AC.pdf; filename="a.pdf"`:            "€.pdf",
		`attachment; filename="a.pdf"; filename*=ISO-8859-1''%E4.pdf`:             "a.pdf",
		`attachment; filename="a.pdf"; filename*=UTF-8''%`:                        "a.pdf",
		"attachment; filename=plan.pdf; filename=other.pdf":                       "plan.pdf",
		`attachment; filename*=UTF-8''Plan%20(1).pdf; filename="a.pdf"`:           "Plan (1).pdf",
		`attachment; filename="a.pdf"; filename*=utf-8'en'R%C3%A9sum%C3%A9@2.pdf`: "Résumé@2.pdf",
		"attachment; filename*=UTF-8''Plan (1)%.pdf; filename=a.pdf":              "a.pdf",
		"attachment; filename=\"r\xe9sum\xe9.pdf\"":                               "résumé.pdf",
		`attachment; filename="../../etc/passwd"`:                                 "../../etc/passwd", // package filename cleans it
	} {
		if got := fetch.FileName(header); got != want {
			t.Errorf("FileName(%q) = %q, want %q", header, got, want)
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
			t.Errorf("EntityTag(%q) = %q, want %q", header, got, want)
		}
	}
}

func TestParseContentRange(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int64{"bytes 5-9/10": 10, "bytes 5-9/*": -1} {
		first, length, size, ok := fetch.ParseContentRange(header)
		if first != 5 || length != 5 || size != want || !ok {
			t.Errorf("ParseContentRange(%q): %d, %d, %d, %t", header, first, length, size, ok)
		}
	}
	for _, header := range []string{"", "bytes", "bytes 5-9", "bytes 5-9/", "bytes 9-5/*", "bytes */10", "bytes 5-/10", "bytes -5/10", "5-9/10",
		"bytes 9-5/10", "bytes 5-10/10", "bytes +5-9/10", "bytes 5-9/99999999999999999999", "bytes 5-9/10 ", "items 5-9/10"} {
		if _, _, _, ok := fetch.ParseContentRange(header); ok {
			t.Errorf("ParseContentRange accepts %q", header)
		}
	}
}

const bearer = "Bearer secret-of-the-origin"

// signWith returns a Sign that adds bearer to every request and counts its calls.
func signWith(calls *atomic.Int32) func(*http.Request) error {
	return func(r *http.Request) error {
		calls.Add(1)
		r.Header.Set("Authorization", bearer)
		return nil
	}
}

// A retry, a resume and a range have credentials too.
func TestOptions_SignEachAttempt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls atomic.Int32
	c := newRawClient(t, fetch.Options{Sign: signWith(&calls)}, func(conn net.Conn, r *http.Request, n int) {
		if r.Header.Get("Authorization") != bearer {
			t.Errorf("connection %d: not signed", n)
		}
		switch first := rangeStart(t, r); {
		case n == 1:
			io.WriteString(conn, "HTTP/1.1 503 No\r\n\r\n")
		case first > 0:
			writePartial(conn, first, len(testFile))
		default:
			writeFull(conn, 10)
		}
	})
	is.Equal(must(c.read(t, c.url))(t), testFile)
	is.Equal(must(c.readRange(t, c.url, testRange(20, 16)))(t), testFile[20:])
	is.Equal(calls.Load(), int32(4))
	is.True(c.IsPrivate(nil))
	is.True(!newOpener(t, fetch.Options{}).IsPrivate(nil))
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

func TestOptions_SignFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	errNoToken := errors.New("no token")
	baseURL, host := startOrigin(t, func(http.ResponseWriter, *http.Request) { t.Error("request without credentials") })
	for _, test := range []struct {
		host       string // set by Sign
		sign, want error
	}{
		{host, errNoToken, exports.ErrFailed},
		{host, fmt.Errorf("%w: %w", exports.ErrForbidden, errNoToken), exports.ErrForbidden},
		{"10.0.0.1", nil, exports.ErrFailed}, // it cannot bypass the URL policy
	} {
		c := newClient(t, fetch.Options{AllowedHosts: []string{host}, Sign: func(r *http.Request) error {
			r.URL.Host = test.host
			return test.sign
		}})
		_, err := c.read(t, baseURL)
		is.True(errors.Is(err, test.want))
		is.Equal(errors.Is(err, errNoToken), test.sign != nil)
		is.Equal(c.Stats(), fetch.Stats{}) // no attempt and no retry
		is.Equal(len(c.dials()), 0)
	}
}

// Secrets in the URL and credentials of a request are in neither errors nor logs.
func TestOpener_LeaksNoSecrets(t *testing.T) {
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
	for rawURL, want := range map[string]string{ // in the error
		baseURL + "/redirect":              "redirect to http://10.0.0.1/",
		baseURL + "/loop":                  "stopped after 5 redirects",
		baseURL + "/reset":                 "EOF",
		baseURL + "/truncated":             "unexpected EOF",
		baseURL + "/xml":                   "status 403",
		baseURL + "/status":                "status 503",
		"http://127.0.0.1:1/":              "not allowed",
		"http://user:secret@" + host + "/": "user info",
	} {
		_, err := c.read(t, rawURL+"?token=secret")
		is.True(strings.Contains(err.Error(), want))
		is.True(strings.Contains(err.Error(), strings.Replace(rawURL, "user:secret@", "", 1))) // the registered URL
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
	c := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", r.URL.Path[1:])
	})
	for code, want := range map[string]bool{
		"": true, "NoSuchKey": true, "NoSuchVersion": true, "BlobNotFound": true, "NoSuchBucket": false, "XAdminUserNotFound": false,
	} {
		if _, err := c.read(t, c.url+"/"+code); errors.Is(err, exports.ErrGone) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
}
