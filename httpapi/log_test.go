package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// TestLog_RedactsSourceURLs: source URLs are often signed.
func TestLog_RedactsSourceURLs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	sources := map[string]string{ // and their redacted form
		"https://user:secret@viewer.example/a.dwg?X-Signature=secret&id=7#secret": "https://viewer.example/a.dwg",
		"//viewer.example/b.dwg?token=secret":                                     "//viewer.example/b.dwg",
		"drawings/c.dwg?token=secret":                                             "drawings/c.dwg",
		"https://user:secret@viewer.example/%zz":                                  "[invalid URL]",
		"drawing 7":                                                               "drawing%207",
	}
	for source, shown := range sources {
		t.Log(shown)
		h.register(source, "gone.pdf", "")
		delete(h.files, "gone.pdf")
		h.client("POST", "/viewer/exports/download-batch", batchBody(source)).wantError(502, "export_failed")
		h.client("POST", "/viewer/exports/download", exportBody(source)).wantError(502, "export_failed")
		h.send("POST", "/viewer/exports/download", exportBody(source), "x-api-key", h.token(`{"sources":["other"]}`)).wantError(403, "forbidden")
		is.True(strings.Contains(h.log.String(), shown))
	}
	is.True(!strings.Contains(h.log.String(), "secret"))
}

// TestLog_FailuresNameTheRequest lets requests fail in all ways that are logged.
func TestLog_FailuresNameTheRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/unavailable":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/truncated":
			w.Header().Set("Content-Length", "10000000")
			w.Write(make([]byte, 5_000_000))
		}
	}))
	t.Cleanup(origin.Close)
	h := serve(t, func(o *httpapi.Options) {
		fetcher := must(fetch.New(&fetch.Options{
			AllowedHosts: []string{strings.TrimPrefix(origin.URL, "http://")}, MaxAttempts: 2,
			Logger: o.Logger, RequestID: httpapi.RequestIDFromContext,
		}))(t)
		withOpener(fetcher)(o)
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			if r.Header.Get("X-Panic") != "" {
				panic("a bug in Authorize")
			}
			return nil
		}
	})
	t.Cleanup(transport.CloseIdleConnections)
	for _, name := range []string{"unavailable", "truncated", "empty"} {
		h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"`+name+`","exportedUrl":"`+origin.URL+"/"+name+`"}`).want(201)
	}
	send := func(id, path, body string, headers ...string) {
		response, err := h.try("POST", path, body, append(headers, "X-Request-Id", id, "X-Api-Key", h.rawKey)...)
		if err == nil { // or it was aborted
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	send("failed", "/viewer/exports/download", exportBody("unavailable"))
	send("skipped", "/viewer/exports/download-batch", batchBody("empty", "unavailable"))
	send("aborted", "/viewer/exports/download", exportBody("truncated"))
	send("panic", "/viewer/exports/download", "", "X-Panic", "1")

	for id, want := range map[string]string{
		"failed":  `msg="request failed" method=POST route=/viewer/exports/download status=502 keyId=1 requestId=failed duration=`,
		"skipped": `msg="files skipped" method=POST route=/viewer/exports/download-batch status=200 keyId=1 requestId=skipped duration=`,
		"aborted": `msg="response aborted" method=POST route=/viewer/exports/download status=200 keyId=1 requestId=aborted duration=`,
		"panic":   `msg="panic in handler" method=POST route=/viewer/exports/download status=500 keyId=1 requestId=panic duration=`,
	} {
		t.Log(id)
		is.True(strings.Contains(h.log.String(), want))
	}
	retries := regexp.MustCompile(`msg="retrying fetch" .*requestId=(\w+)`).FindAllStringSubmatch(h.log.String(), -1)
	is.Equal(len(retries), 2)
	is.Equal(retries[0][1], "failed")
	is.Equal(retries[1][1], "skipped")
}
