package fetch_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports/fetch"
)

// TestOpener_CountsAndLogsRetries fetches from an origin that closes the first two
// connections and truncates the third response.
func TestOpener_CountsAndLogsRetries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, host := startRawOrigin(t, func(conn net.Conn, r *http.Request, n int) {
		switch {
		case n < 3: // no response
		case n == 3:
			writeFull(conn, `"1"`, 10)
		default:
			writePartial(conn, `"1"`, rangeStart(t, r), len(testFile))
		}
	})
	var log strings.Builder
	c := newClient(t, fetch.Options{
		AllowedHosts: []string{host}, Logger: debugLogger(&log), RequestID: func(context.Context) string { return "request-7" },
	})
	file := must(c.Open(t.Context(), parse(t, baseURL)))(t)
	defer file.Body.Close()
	content := must(io.ReadAll(file.Body))(t)
	is.Equal(string(content), testFile)
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
	var (
		mu   sync.Mutex
		seen []string // by request; "none" without a header
	)
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		value := "none"
		if values := r.Header.Values("Traceparent"); len(values) > 0 {
			value = strings.Join(values, ",")
		}
		seen = append(seen, value)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	})
	type parentKey struct{}
	for _, c := range []struct {
		option func(context.Context) string
		path   string
		want   []string
	}{
		{nil, "/", []string{"none"}},
		{func(context.Context) string { return "" }, "/", []string{"none"}},
		{func(ctx context.Context) string { return ctx.Value(parentKey{}).(string) }, "/", []string{parent}},
		{func(ctx context.Context) string { return ctx.Value(parentKey{}).(string) }, "/moved", []string{parent, parent}},
	} {
		opener := newClient(t, fetch.Options{AllowedHosts: []string{host}, Traceparent: c.option})
		file := must(opener.Open(context.WithValue(t.Context(), parentKey{}, parent), parse(t, baseURL+c.path)))(t)
		file.Body.Close()
		is.Equal(seen, c.want)
		seen = nil
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
	first, length, size, ok := fetch.ParseContentRange("bytes 5-9/10")
	if first != 5 || length != 5 || size != 10 || !ok {
		t.Errorf("%d, %d, %d, %t", first, length, size, ok)
	}
	first, length, size, ok = fetch.ParseContentRange("bytes 5-9/*")
	if first != 5 || length != 5 || size != -1 || !ok {
		t.Errorf("%d, %d, %d, %t", first, length, size, ok)
	}
	for _, header := range []string{"", "bytes", "bytes 5-9", "bytes 5-9/", "bytes 9-5/*", "bytes */10", "bytes 5-/10", "bytes -5/10", "5-9/10",
		"bytes 9-5/10", "bytes 5-10/10", "bytes +5-9/10", "bytes 5-9/99999999999999999999", "bytes 5-9/10 ", "items 5-9/10"} {
		if _, _, _, ok := fetch.ParseContentRange(header); ok {
			t.Errorf("ParseContentRange accepts %q", header)
		}
	}
}
