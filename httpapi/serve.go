package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"

	"example.com/canvasback/httpapi/internal/stream"
)

// newMux returns the mux of a route table. Its patterns are paths, because those with a
// method conflict: POST /keys/delete and GET /keys/{id} both match GET /keys/delete.
func newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	paths := make(map[string]map[string]*route)
	allow := make(map[string][]string)
	for _, row := range routes {
		if paths[row.path] == nil {
			paths[row.path] = make(map[string]*route)
		}
		methods := []string{row.method}
		if row.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			paths[row.path][method] = &row
		}
		allow[row.path] = append(allow[row.path], methods...)
	}
	for path, byMethod := range paths {
		allowed, kind := strings.Join(allow[path], ", "), resourceKind(path)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			c := callOf(r.Context())
			if route := byMethod[r.Method]; route != nil {
				r.Pattern = route.method + " " + path
				c.serve(route, kind)
				return
			}
			c.route = path
			w.Header().Set("Allow", allowed)
			c.fail(errMethodNotAllowed)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { callOf(r.Context()).fail(errNoRoute) })
	return mux
}

// ServeHTTP implements [http.Handler]. It reads the body of r and, like
// [http.ServeMux], sets its Pattern, prefix included, for middleware around it. It
// modifies nothing else of r.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown, tokens := cutToken(r)
	c := a.newCall(w, shown, tokens)
	defer c.observe()
	defer c.recoverPanic()
	header := c.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	c.setRequestID()
	c.r.Pattern = ""
	defer func() {
		if c.r.Pattern != "" {
			r.Pattern = strings.Replace(c.r.Pattern, "/", a.prefix+"/", 1)
		}
	}()
	hasPrefix := c.cutPrefix()
	switch {
	case a.cors.handle(&c.w, c.r):
		if hasPrefix {
			_, pattern := a.mux.Handler(&http.Request{Method: c.r.Header.Get("Access-Control-Request-Method"), URL: c.r.URL})
			c.route = strings.TrimSuffix(pattern[strings.IndexByte(pattern, ' ')+1:], "/") // also of a route for other methods
		}
	case !hasPrefix:
		c.fail(errNoRoute)
	default:
		if strings.HasPrefix(c.r.URL.Path, "/viewer/exports/links/") { // the URL has a secret
			header.Set("Referrer-Policy", "no-referrer")
		}
		// ServeMux redirects unclean paths, without the prefix under which it is
		// mounted.
		if p := c.r.URL.EscapedPath(); !strings.HasPrefix(p, "/") || path.Clean(p) != p {
			c.fail(errNoRoute)
			return
		}
		a.mux.ServeHTTP(&c.w, c.r)
	}
}

// cutPrefix removes the prefix from the path. Other paths have no route.
func (c *call) cutPrefix() bool {
	prefix := c.api.prefix
	if prefix == "" {
		return true
	}
	p, ok := strings.CutPrefix(c.r.URL.Path, prefix)
	raw := strings.SplitN(c.r.URL.EscapedPath(), "/", strings.Count(prefix, "/")+2)
	rest := "/" + raw[len(raw)-1]
	if decoded, _ := url.PathUnescape(rest); !ok || decoded != p { // %2F is no slash
		return false
	}
	c.r.URL = new(*c.r.URL)
	c.r.URL.Path, c.r.URL.RawPath = p, rest
	return true
}

// serve applies the key check and the body limit of a route, calls its endpoint, and
// responds to errors. The {id} in the path of the route, if any, is that of a record of
// the kind.
func (c *call) serve(route *route, kind string) {
	c.route = route.path
	id, invalid := c.pathID()
	if c.id = id; invalid == nil && kind != "" {
		c.touch(kind, id)
	}
	c.body = requestBody{call: c, source: http.MaxBytesReader(&c.w, cmp.Or[io.ReadCloser](c.r.Body, http.NoBody), route.limit)}
	if server, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		c.body.end = c.start.Add(server.ReadTimeout)
	}
	c.r.Body = unreadable{}
	defer c.memory.Release()
	if err := c.dispatch(route, invalid); err != nil {
		c.fail(err)
	}
}

// dispatch calls the endpoint of a route. The error about the id in the path, if any, is for
// clients that may use the route.
func (c *call) dispatch(route *route, invalidID error) error {
	if err := cmp.Or(c.authenticate(route), c.checkAfterWait()); err != nil { // Authorize may wait
		return err
	}
	if c.r.ContentLength > route.limit {
		return errTooLarge
	}
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		c.drain()
	}
	if invalidID != nil {
		return invalidID
	}
	return route.endpoint(c)
}

// recoverPanic turns a panic into a 500, or aborts a response that has begun. Only a
// deferred statement may call it.
func (c *call) recoverPanic() {
	reason := recover()
	if reason == nil {
		return
	}
	if reason != http.ErrAbortHandler {
		c.failure = fmt.Sprint("panic: ", reason)
		c.logFailure(slog.LevelError, "panic in handler", http.StatusInternalServerError,
			"panic", reason, "stack", string(debug.Stack()))
		if c.w.status == 0 {
			c.fail(errPanic)
			return
		}
	}
	c.aborted = true
	stream.Abort(&c.w, c.r)
	if c.r.Context().Value(http.ServerContextKey) != nil { // others than http.Server may not recover it
		panic(http.ErrAbortHandler)
	}
}
