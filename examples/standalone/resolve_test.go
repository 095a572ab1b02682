package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestResolve_AsksTheProgram(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var files string
	resolver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		if json.NewDecoder(r.Body).Decode(&in) != nil || len(in) != 1 || r.Method != "POST" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		switch source := in["sourceFileUrl"]; source {
		case "made?v=1":
			json.NewEncoder(w).Encode(map[string]any{"exportedUrl": files + "/a.txt", "fileName": "made.txt", "register": true, "other": 1})
		case "null":
			w.Write([]byte(`{"exportedUrl":"` + files + `/a.txt","fileName":null}`))
		case "soon", "some time":
			w.Header().Set("Retry-After", map[string]string{"soon": "7"}[source])
			w.WriteHeader(http.StatusAccepted)
		case "redirect":
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "text":
			w.Header().Set("Content-Type", "text/plain")
			w.Write([]byte(`{"exportedUrl":"` + files + `/a.txt"}`))
		case "long":
			w.Write([]byte(`{"exportedUrl":"` + files + `/a.txt","x":"` + strings.Repeat("x", 1<<20) + `"}`))
		case "malformed":
			w.Write([]byte(`{"exportedUrl":`))
		case "not allowed": // the address of the resolver allows no download
			w.Write([]byte(`{"exportedUrl":"http://` + r.Host + `/"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer resolver.Close()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("content")) }))
	defer origin.Close()
	files = origin.URL

	s := startServer(t, map[string]string{
		"EXPORT_RESOLVE_URL": resolver.URL, "EXPORT_RESOLVE_TOKEN": "secret", "SOURCE_IGNORE_QUERY": "true", "PROTECT_ROUTES": "false",
		"EXPORT_ALLOWED_HOSTS": strings.TrimPrefix(origin.URL, "http://"),
	})
	for source, want := range map[string]int{
		"null": 200, "unknown": 404, "soon": 503, "some time": 503, "redirect": 502, "text": 502, "long": 502, "malformed": 502, "not allowed": 502,
	} {
		t.Log(source)
		s.sendText(want, "POST", "/viewer/exports/download", single(source))
	}
	is.Equal(s.sendText(200, "POST", "/viewer/exports/download", single("made?v=1")), "content")
	s.sendText(200, "POST", "/viewer/exports/download", single("made?v=2")) // registered without its query
}
