package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"example.com/canvasback/httpapi/internal/accept"
)

// Options configure a console. The zero value, or nil, is for an API at /api/ and a
// console at a sibling path such as /console/.
type Options struct {
	// API is the base URL of the API, with or without a trailing slash;
	// "../api/" if empty. It is a URL reference, resolved against the URL of
	// the console. An API of another origin must list the console's origin in
	// AllowedOrigins of httpapi.Options.
	API string

	// Ready is the path of the readiness check of httpapi.API, relative to the
	// console. The overview shows what it returns, such as the state of the
	// failover fence. If it is empty, the console does not show it.
	Ready string

	_ struct{} // prevents literals without field names
}

//go:embed page
var page embed.FS

const index = "index.html"

// Files returns the names of the console's files, for an application that has
// other routes below the same path. The console also serves its mount point.
func Files() []string { return []string{"icon.svg", index, mainScript, "style.css", symbolsScript} }

// New returns the console as a handler for GET and HEAD that is safe for
// concurrent use. It returns an error if an option is not a URL that a browser can
// connect to.
func New(options *Options) (http.Handler, error) {
	options = cmp.Or(options, new(Options))
	api, source, err := parseAPI(options.API)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	ready, err := url.Parse(options.Ready)
	if err != nil || ready.IsAbs() || ready.Host != "" {
		return nil, fmt.Errorf("console: Ready must be a path: %q", options.Ready)
	}
	shared := sharedFiles()
	h := &handler{files: maps.Clone(shared), policy: policy(source, options.Ready != "")}
	values := strings.NewReplacer("{{.API}}", html.EscapeString(api), "{{.Ready}}", html.EscapeString(options.Ready))
	h.files[index] = newFile(index, []byte(values.Replace(string(shared[index].plain.content))))
	return h, nil
}

type handler struct {
	files  map[string]file // by name
	policy string
}

type file struct {
	mediaType   string
	plain, gzip representation
}

type representation struct {
	etag    string
	content []byte
}

// sharedFiles returns the files that all consoles have in common, and the template of
// the index. Removing comments and compressing takes 35 ms, or 475 ms with the race detector.
var sharedFiles = sync.OnceValue(func() map[string]file {
	files := make(map[string]file)
	for _, name := range Files() {
		files[name] = newFile(name, omitted.ReplaceAll(readFile(name), nil))
	}
	return files
})

// omitted are comments on lines of their own, and indentation, a tenth of the
// compressed page.
var omitted = regexp.MustCompile(`(?m)^\s*// .*\n|^/\*.*\*/\n|^\s+`)

// mediaTypes replaces package mime, whose types depend on the machine.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func newFile(name string, content []byte) file {
	var compressed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // fails only for an invalid level
	z.Write(content)                                               // a Buffer returns no error
	z.Close()
	return file{mediaTypes[path.Ext(name)], newRepresentation(content), newRepresentation(compressed.Bytes())}
}

func newRepresentation(content []byte) representation {
	digest := sha256.Sum256(content)
	return representation{`"` + hex.EncodeToString(digest[:16]) + `"`, content}
}

const self = "'self'" // the origin of the page, as a source expression

// policy returns the content security policy of the page. api is the source expression
// of the API; the readiness check is of the page's own origin.
func policy(api string, ready bool) string {
	images, connections, frames := self+" blob:", api, "'none'"
	if api != self {
		images, frames = images+" "+api, api // openDownload uses a frame
		if ready {
			connections = self + " " + api
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src " + images + "; connect-src " + connections + "; frame-src " + frames +
		"; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// hostPattern matches hosts that need no escaping in a content security policy,
// where commas and semicolons are separators.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// parseAPI returns the URL of the API with a trailing slash, and its source
// expression for the content security policy.
func parseAPI(api string) (apiURL, source string, err error) {
	u, err := url.Parse(strings.TrimSuffix(cmp.Or(api, "../api/"), "/") + "/")
	switch {
	case err != nil:
		return "", "", err
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "":
		return "", "", fmt.Errorf("API must be a URL without user, query and fragment: %q", u.Redacted())
	case u.Scheme == "" && u.Host == "":
		return u.String(), self, nil
	case u.Scheme != "http" && u.Scheme != "https" || !hostPattern.MatchString(u.Host):
		return "", "", fmt.Errorf("API must be a relative, http or https URL: %q", api)
	}
	return u.String(), u.Scheme + "://" + u.Host, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", h.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), index)
	if segment := lastSegment(r); r.URL.Path == "" && segment != "" {
		// The page's relative URLs need the trailing slash. The redirect is
		// relative because only the client knows the complete path; "./"
		// keeps a segment such as "a:b" from being read as a scheme.
		header.Set("Location", "./"+segment+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	f, ok := h.files[name]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Vary", "Accept-Encoding")
	body := f.plain
	if accept.Gzip(r.Header) {
		header.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	header.Set("ETag", body.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body.content))
}

// lastSegment returns the last path segment of the request URI, before any
// prefix was stripped.
func lastSegment(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	escaped := u.EscapedPath()
	return escaped[strings.LastIndexByte(escaped, '/')+1:]
}
