package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// Options say where the API is. The zero value fits a console that is mounted
// beside an API called api.
type Options struct {
	// API is the address of the API as seen from the console's own, with or
	// without a slash at its end; "../api/" if empty. It may be relative, the
	// path of an API on the same host, or an http(s) address of another
	// origin, which has to allow the console's origin
	// (AllowedOrigins of httpapi.Options).
	API string

	_ struct{} // literals have field names
}

//go:embed page
var page embed.FS

const index = "index.html"

// New returns the console as a handler for GET and HEAD that is safe for
// concurrent use. It returns an error if Options.API is not a URL that a
// browser can connect to.
func New(options Options) (http.Handler, error) {
	api, source, err := readAPI(options.API)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	files, err := load(api)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return &handler{files: files, policy: policy(source)}, nil
}

// Files returns the names of the console's files, for a host that has other
// routes where the console is mounted. Beside them the console answers at the
// mount itself.
func Files() []string {
	entries, err := page.ReadDir("page")
	if err != nil {
		panic(err) // the name is a constant
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

// handler serves the files from memory.
type handler struct {
	files  map[string]file // by name
	policy string
}

type file struct {
	mediaType string
	etag      string
	content   []byte
}

// load reads the files and writes the address of the API into the index.
func load(api string) (map[string]file, error) {
	files := make(map[string]file)
	for _, name := range Files() {
		content, err := page.ReadFile("page/" + name)
		if err != nil {
			return nil, err
		}
		if name == index {
			if content, err = fill(content, api); err != nil {
				return nil, err
			}
		}
		digest := sha256.Sum256(content)
		files[name] = file{
			mediaType: mediaTypes[path.Ext(name)],
			etag:      `"` + hex.EncodeToString(digest[:16]) + `"`,
			content:   content,
		}
	}
	return files, nil
}

// fill writes the address of the API into the index.
func fill(content []byte, api string) ([]byte, error) {
	parsed, err := template.New(index).Parse(string(content))
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	err = parsed.Execute(&filled, struct{ API string }{api})
	return filled.Bytes(), err
}

// mediaTypes are set here because those of package mime depend on the machine.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy is the content security policy of the page. source is where it may
// connect to.
func policy(source string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self'",
		"img-src 'self' blob:",
		"connect-src " + source,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
}

// plainHost is a host that stands for itself in a content security policy,
// where a comma or a semicolon would begin something else.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// readAPI returns the address of the API with a slash at its end, and the
// source expression that lets a page connect to it.
func readAPI(api string) (address, source string, err error) {
	if api == "" {
		api = "../api/"
	}
	u, err := url.Parse(api)
	if err != nil {
		return "", "", err
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
		return "", "", fmt.Errorf("API must be an address without user, query and fragment, not %q", u.Redacted())
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
		if u.RawPath != "" {
			u.RawPath += "/"
		}
	}
	if u.Scheme == "" && u.Host == "" {
		return u.String(), "'self'", nil
	}
	if u.Scheme != "http" && u.Scheme != "https" || !plainHost.MatchString(u.Host) {
		return "", "", fmt.Errorf("API must be a relative or an http(s) address, not %q", api)
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
	name := strings.TrimPrefix(r.URL.Path, "/")
	if place := lastSegment(r); r.URL.Path == "" && place != "" {
		// Relative addresses in the page begin at the last slash. The
		// redirect is relative too, because only the client knows the
		// whole path; the dot keeps a colon in it from ending a scheme.
		header.Set("Location", "./"+place+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	if name == "" {
		name = index
	}
	f, ok := h.files[name]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("ETag", f.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

// lastSegment returns what stands behind the last slash of the path that the
// client asked for, before any prefix was taken off.
func lastSegment(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	escaped := u.EscapedPath()
	return escaped[strings.LastIndexByte(escaped, '/')+1:]
}
