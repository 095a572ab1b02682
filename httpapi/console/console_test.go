package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/client"
	"example.com/canvasback/httpapi/console"
)

// The limits on the size of the page with gzip, in bytes: of all files, and of those
// that index.html loads.
const (
	maxSize        = 60_000
	maxFirstScreen = 40_000
)

func TestPage_IsSmallAndSelfContained(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	handler := newConsole(t, "")
	total, first := 0, 0
	page := get(t, handler, "GET", "/index.html").Body.String()
	for _, name := range console.Files() {
		content := get(t, handler, "GET", "/"+name).Body.String()
		size := get(t, handler, "GET", "/"+name, "Accept-Encoding", "gzip").Body.Len()
		total += size
		if name == "index.html" || strings.Contains(page, `"`+name+`"`) {
			first += size
		}
		text := strings.ReplaceAll(content, "http://www.w3.org/2000/svg", "")
		text = regexp.MustCompile(`https?://"`).ReplaceAllString(text, "") // placeholders
		for _, forbidden := range []string{"http:", "https:", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<style", " style=", "src=\"/", "href=\"/"} {
			t.Log(name, forbidden)
			is.True(!strings.Contains(text, forbidden))
		}
	}
	is.True(total <= maxSize)
	is.True(first <= maxFirstScreen)
	t.Logf("%d bytes with gzip, %d on the first screen", total, first)
}

// topLevel matches the declarations of a module that others could repeat.
var topLevel = regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|class|function\*?) +(\w+).*`)

// TestPage_ModulesCanBeJoined checks what joining the modules requires of them.
func TestPage_ModulesCanBeJoined(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	handler := newConsole(t, "")
	main := get(t, handler, "GET", "/main.js").Body.String()
	symbols := get(t, handler, "GET", "/symbols.js").Body.String()
	names, err := filepath.Glob("page/*.js")
	is.NoErr(err)
	names = append(names, "../client/client.js")
	declared := make(map[string]string) // by name, the module
	for _, name := range names {
		content, err := os.ReadFile(name)
		is.NoErr(err)
		for _, match := range topLevel.FindAllSubmatch(content, -1) {
			identifier := string(match[1])
			t.Log(name, identifier)
			is.Equal(declared[identifier], "") // no other module declares it
			declared[identifier] = name
			line := string(match[0])
			is.True(strings.Contains(main, line) != strings.Contains(symbols, line)) // in one of them
		}
	}
	imports := regexp.MustCompile(`(?m)^import .*`)
	is.Equal(imports.FindAllString(main, -1), nil)
	lines := imports.FindAllString(symbols, -1)
	is.Equal(len(lines), 1)
	is.True(strings.HasSuffix(lines[0], ` from "./main.js";`))
	imported := strings.TrimSuffix(strings.TrimPrefix(lines[0], "import { "), ` } from "./main.js";`)
	for identifier := range strings.SplitSeq(imported, ", ") {
		t.Log(identifier)
		is.True(regexp.MustCompile(`(?m)^export (async )?(const|let|class|function\*?) ` + identifier + `\b`).MatchString(main))
	}
}

// TestPage_LibraryInNode tests the modules that have no elements with Node.js.
func TestPage_LibraryInNode(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	if _, err := exec.LookPath("node"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + err.Error())
	}
	dir := t.TempDir()
	for _, name := range []string{"page", "testdata"} {
		is.NoErr(os.CopyFS(filepath.Join(dir, "console", name), os.DirFS(name)))
	}
	is.NoErr(os.CopyFS(filepath.Join(dir, "client"), client.Files))
	is.NoErr(os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	output, err := exec.Command("node", "--test", filepath.Join(dir, "console", "testdata")).CombinedOutput()
	t.Logf("%s", output)
	is.NoErr(err)
}

func TestHandler_CompressesIfAccepted(t *testing.T) {
	t.Parallel()
	handler := newConsole(t, "")
	plain := get(t, handler, "GET", "/main.js")
	for accept, compressed := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=1.0, identity": true, "": false, "gzip;q=0": false, "gzip; q=0.0, br": false, "br": false,
	} {
		is := is.New(t)
		response := get(t, handler, "GET", "/main.js", "Accept-Encoding", accept)
		is.Equal(response.Header().Get("Vary"), "Accept-Encoding")
		if !compressed {
			is.Equal(response.Header().Get("Content-Encoding"), "")
			is.Equal(response.Body.String(), plain.Body.String())
			continue
		}
		is.Equal(response.Header().Get("Content-Encoding"), "gzip")
		etag := response.Header().Get("ETag")
		is.True(etag != plain.Header().Get("ETag"))
		z, err := gzip.NewReader(response.Body)
		is.NoErr(err)
		content, err := io.ReadAll(z)
		is.NoErr(err)
		is.Equal(string(content), plain.Body.String())
		is.Equal(get(t, handler, "GET", "/main.js", "Accept-Encoding", accept, "If-None-Match", etag).Code, 304)
	}
}

// get sends a request to a handler and returns the response.
func get(t *testing.T, handler http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

func TestHandler_ServesFilesWithMediaType(t *testing.T) {
	t.Parallel()
	handler := newConsole(t, "")
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	for _, name := range console.Files() {
		is := is.New(t)
		response := get(t, handler, "GET", "/"+name)
		is.Equal(response.Code, 200)
		is.Equal(response.Header().Get("Content-Type"), types[path.Ext(name)])
		is.Equal(response.Header().Get("Cache-Control"), "no-cache")
		is.Equal(response.Header().Get("X-Content-Type-Options"), "nosniff")
		is.Equal(response.Header().Get("Referrer-Policy"), "no-referrer")
		is.True(response.Body.Len() > 0)

		etag := response.Header().Get("ETag")
		is.True(strings.HasPrefix(etag, `"`)) // strong
		response = get(t, handler, "GET", "/"+name, "If-None-Match", `W/"other", `+etag)
		is.Equal(response.Code, 304)
		is.Equal(response.Body.Len(), 0)
		is.Equal(response.Header().Get("ETag"), etag)
		response = get(t, handler, "HEAD", "/"+name)
		is.Equal(response.Code, 200)
		is.Equal(response.Body.Len(), 0)
	}
}

func TestHandler_PolicyAllowsConnectionsToAPIOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for api, source := range map[string]string{
		"":                               "'self'",
		"./":                             "'self'",
		"api":                            "'self'",
		"../../v1/api/":                  "'self'",
		"/api/":                          "'self'",
		"https://api.example":            "https://api.example",
		"https://api.example:8443/v1/":   "https://api.example:8443",
		"http://127.0.0.1:8080/some/api": "http://127.0.0.1:8080",
	} {
		t.Log(api)
		response := get(t, newConsole(t, api), "GET", "/")
		images := strings.TrimSuffix("'self' blob: "+source, " 'self'")
		frames := strings.Replace(source, "'self'", "'none'", 1)
		want := "default-src 'none'; script-src 'self'; style-src 'self'; img-src " + images + "; connect-src " + source + "; frame-src " + frames +
			"; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
		is.Equal(response.Header().Get("Content-Security-Policy"), want)
	}
}

func TestHandler_InsertsAPIURLIntoIndex(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for api, want := range map[string]string{
		"": "../api/", "./": "./", ".": "./", "api": "api/", "a%2Fb": "a%2Fb/", "/x/y": "/x/y/",
		`q"><script>`: "q%22%3E%3Cscript%3E/", "a&b": "a&amp;b/", "https://api.example": "https://api.example/",
	} {
		t.Log(api, want)
		body := get(t, newConsole(t, api), "GET", "/").Body.String()
		is.True(strings.Contains(body, `<html lang="en" data-api="`+want+`" data-ready="">`))
	}
}

// newConsole returns a console for the API at a URL.
func newConsole(t *testing.T, api string) http.Handler {
	t.Helper()
	handler, err := console.New(&console.Options{API: api})
	is.New(t).NoErr(err)
	return handler
}

func TestNew_InsertsReadinessCheck(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	handler, err := console.New(&console.Options{API: "https://api.example", Ready: "ready?a&b"})
	is.NoErr(err)
	response := get(t, handler, "GET", "/")
	is.True(strings.Contains(response.Body.String(), `data-ready="ready?a&amp;b">`))
	is.True(strings.Contains(response.Header().Get("Content-Security-Policy"), "; connect-src 'self' https://api.example;"))
	for _, ready := range []string{"https://other.example/readyz", "//other.example/readyz", "%zz"} {
		_, err := console.New(&console.Options{Ready: ready})
		is.True(err != nil)
	}
}

func TestNew_RejectsInvalidAPI(t *testing.T) {
	t.Parallel()
	for _, api := range []string{
		"ftp://api.example/", "//api.example/", "https://user:word@api.example/", "api/?x=1", "api/#x", "api/?", "javascript:alert(1)",
		"https://a.example;script-src", "https://a.example,b.example", "https:///api", "%zz", "https://[::1]/",
	} {
		t.Log(api)
		_, err := console.New(&console.Options{API: api})
		is.New(t).True(err != nil)
	}
}

func TestHandler_RejectsOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	handler := newConsole(t, "")
	for _, target := range []string{"/nope", "/page/index.html", "/../console.go", "/main.js/", "//", "/%2e%2e/console.go", "/index.html/x"} {
		t.Log(target)
		response := get(t, handler, "GET", target)
		is.Equal(response.Code, 404)
		is.True(response.Header().Get("Content-Security-Policy") != "")
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		response := get(t, handler, method, "/")
		is.Equal(response.Code, 405)
		is.Equal(response.Header().Get("Allow"), "GET, HEAD")
	}
}

func TestHandler_ServesBelowAnyPrefix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	handler := newConsole(t, "")
	mux := http.NewServeMux()
	mux.Handle("/x/y/console/", http.StripPrefix("/x/y/console", handler))
	mux.Handle("/", handler)
	withoutMux := http.StripPrefix("/x/y", handler)
	for _, c := range []struct {
		handler  http.Handler
		target   string
		status   int
		location string
	}{
		{mux, "/", 200, ""},
		{mux, "/main.js", 200, ""},
		{mux, "/x/y/console/", 200, ""},
		{mux, "/x/y/console/index.html", 200, ""},
		{mux, "/x/y/console/style.css", 200, ""},
		{withoutMux, "/x/y", 301, "./y/"},
		{withoutMux, "/x/y?a=b", 301, "./y/"},
		{withoutMux, "/x/y/", 200, ""},
		{withoutMux, "/x/y/main.js", 200, ""},
		{http.StripPrefix("/x/y/", handler), "/x/y/", 200, ""},
		{http.StripPrefix("/x/y/", handler), "/x/y/main.js", 200, ""},
		{http.StripPrefix("/a:b", handler), "/a:b", 301, "./a:b/"}, // not a scheme
		{http.StripPrefix("/ü b", handler), "/%C3%BC%20b", 301, "./%C3%BC%20b/"},
		{http.StripPrefix("//host.example", handler), "http://x//host.example", 301, "./host.example/"}, // not another host
	} {
		t.Log(c.target)
		response := get(t, c.handler, "GET", c.target)
		is.Equal(response.Code, c.status)
		is.Equal(response.Header().Get("Location"), c.location)
	}
}
