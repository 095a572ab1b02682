package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// credential is a set of request headers.
type credential struct {
	name    string
	headers []string // complete lines
}

// TestAuth_AllRoutesAndCredentials sends every method with every credential to
// every route, and compares the statuses with a model. Bodies and ids are
// malformed: an authenticated request changes nothing and gets 400. Methods without
// a route get every eighth credential.
func TestAuth_AllRoutesAndCredentials(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*httpapi.Options){
		"default":             func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithScope },
		"client registration": func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithClientKey },
		"admin registration":  func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey },
		"no admin key":        func(o *httpapi.Options) { o.AdminKeys = nil },
		"no protection":       func(o *httpapi.Options) { o.DangerouslySkipClientKeys = true },
		"no keys service":     func(o *httpapi.Options) { o.Keys = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(o *httpapi.Options) { o.Limits.WrongKeys.Burst = -1 })
			issued := issueKeys(t, h)
			change(&h.options)
			h.listen(httpapi.Handler(&h.options))
			before := fmt.Sprint(h.options.Symbols.ListFolders(t.Context(), symbols.Range{}))
			m := model{h.options, httpapi.Routes(&h.options), issued}
			conn := h.newRawClient()
			all, unrouted := credentials(issued), 0
			for _, route := range append(m.routes, httpapi.Route{Path: "/nope"}) {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE", "get", "post"} {
					for _, c := range all {
						target := strings.ReplaceAll(route.Path, "{id}", "x")
						want := m.status(method, route.Path, c.headers)
						if want == 404 && route.Key == "" || want == 405 {
							if unrouted++; unrouted%8 != 0 {
								continue
							}
						}
						got := conn.send(method, target, c.headers, "[")
						if got.status != want {
							t.Errorf("%s %s with %s: %d %s, want %d", method, target, c.name, got.status, got.body, want)
						}
						m.check(t, got, method, route.Path, c.name)
					}
				}
			}
			is.New(t).Equal(fmt.Sprint(h.options.Symbols.ListFolders(t.Context(), symbols.Range{})), before)
		})
	}
}

// issuedKeys are client keys in each state.
type issuedKeys struct{ valid, inactive, expired, rotated, deleted, foreign keys.RawKey }

func issueKeys(t *testing.T, h *harness) issuedKeys {
	t.Helper()
	create := func(fields keys.Fields) keys.Issued { return must(h.options.Keys.Create(t.Context(), fields))(t) }
	rotated, deleted := create(keys.Fields{}), create(keys.Fields{})
	must(h.options.Keys.Rotate(t.Context(), rotated.Key.ID, 0))(t)
	is.New(t).NoErr(h.options.Keys.Delete(t.Context(), deleted.Key.ID))
	return issuedKeys{
		valid:    keys.RawKey(h.rawKey),
		inactive: create(keys.Fields{Active: new(false)}).Raw,
		expired:  create(keys.Fields{ExpiresAt: new(h.clock.Now())}).Raw,
		rotated:  rotated.Raw,
		deleted:  deleted.Raw,
		foreign:  keys.RawKey(foreignKey(t)),
	}
}

func credentials(issued issuedKeys) []credential {
	valid := string(issued.valid)
	list := []credential{
		{"nothing", nil},
		{"both", []string{"x-api-key: " + valid, "x-admin-key: " + adminKey}},
		{"both, swapped", []string{"x-api-key: " + adminKey, "x-admin-key: " + valid}},
		{"names in other case", []string{"X-API-KEY:" + valid + "\t ", "X-aDMIN-kEY: " + adminKey}},
		{"similar names", []string{"x_api_key: " + valid, "x-apikey: " + valid, "api-key: " + valid, "x_admin_key: " + adminKey, "x-admin: " + adminKey}},
		{"other headers", []string{"Authorization: Bearer " + valid, "X-Access-Token: " + valid, "Cookie: x-api-key=" + valid + "; x-admin-key=" + adminKey}},
		{"valid and invalid", []string{"x-api-key: " + valid, "x-api-key: x", "x-admin-key: " + adminKey, "x-admin-key: x"}},
		{"invalid and valid", []string{"x-api-key: x", "X-Api-Key: " + valid, "x-admin-key: x", "X-Admin-Key: " + adminKey}},
		{"the same twice", []string{"x-api-key: " + valid, "X-API-Key: " + valid, "x-admin-key: " + adminKey, "X-ADMIN-Key: " + adminKey}},
		{"a list of two", []string{"x-api-key: " + valid + "," + valid, "x-admin-key: " + adminKey + ", " + adminKey}},
		{"a folded line", []string{"x-api-key: " + valid[:20] + "\r\n " + valid[20:], "x-admin-key: " + adminKey[:5] + "\r\n\t" + adminKey[5:]}},
		{"quotes", []string{`x-api-key: "` + valid + `"`, `x-admin-key: "` + adminKey + `"`}},
		{"a bearer", []string{"x-api-key: Bearer " + valid, "x-admin-key: Bearer " + adminKey}},
		{"invalid UTF-8", []string{"x-api-key: " + valid + "\xff", "x-admin-key: " + adminKey + "\xff"}},
		{"keys in upper case", []string{"x-api-key: " + strings.ToUpper(valid), "x-admin-key: " + strings.ToUpper(adminKey)}},
		{"a mask", []string{"x-api-key: " + valid[:10] + "****" + valid[len(valid)-4:], "x-admin-key: " + adminKey[:3] + "****"}},
	}
	for name, raw := range map[string]keys.RawKey{
		"a valid key": issued.valid, "an inactive key": issued.inactive, "an expired key": issued.expired, "a rotated key": issued.rotated,
		"a deleted key": issued.deleted, "a foreign key": issued.foreign, "an admin key": adminKey, "an empty key": "", "a long key": keys.RawKey(strings.Repeat("x", 5000)),
	} {
		for _, header := range []string{"x-api-key", "x-admin-key"} {
			list = append(list, credential{name + " as " + header, []string{header + ": " + string(raw)}})
		}
	}
	return list
}

// model computes the status that the contract requires.
type model struct {
	options httpapi.Options
	routes  []httpapi.Route
	issued  issuedKeys
}

func (m model) status(method, path string, lines []string) int {
	routes := m.routesOf(path)
	at := slices.IndexFunc(routes, func(r httpapi.Route) bool { return r.Method == method })
	switch {
	case routes == nil:
		return 404
	case at < 0:
		return 405
	}
	key, own := routes[at].Key, routes[at].Own
	authenticated := 400
	if !strings.Contains(path, "{id}") && path != "/symbol/search" && (method == "GET" || method == "HEAD") {
		authenticated = 200 // no input to reject
	}
	if strings.Contains(path, "{token}") {
		authenticated = 404 // no such link
	}
	switch key {
	case "x-admin-key":
		switch {
		case len(m.options.AdminKeys) == 0:
			return 403
		case headerValue(lines, key) != adminKey:
			return 401
		}
	case "register":
		admin, client := headerValue(lines, "x-admin-key"), headerValue(lines, "x-api-key")
		switch {
		case len(m.options.AdminKeys) == 0 && hasHeader(lines, "x-admin-key"):
			return 403
		case hasHeader(lines, "x-admin-key") && admin != adminKey:
			return 401
		case hasHeader(lines, "x-admin-key"):
		case m.options.DangerouslySkipClientKeys:
			return 403
		case m.options.Keys == nil, !slices.Contains([]keys.RawKey{m.issued.valid, m.issued.inactive, m.issued.expired}, keys.RawKey(client)):
			return 401
		default:
			return 403 // its scopes name nothing
		}
	case "x-api-key":
		switch raw := keys.RawKey(headerValue(lines, key)); {
		case m.options.DangerouslySkipClientKeys && !own:
		case m.options.Keys == nil:
			return 401
		case raw == m.issued.inactive, raw == m.issued.expired:
			return 403
		case raw != m.issued.valid:
			return 401
		}
	}
	return authenticated
}

// routesOf returns the routes of a path, also that for HEAD.
func (m model) routesOf(path string) (list []httpapi.Route) {
	for _, route := range m.routes {
		if route.Path != path {
			continue
		}
		list = append(list, route)
		if route.Method == "GET" {
			route.Method = "HEAD"
			list = append(list, route)
		}
	}
	return list
}

func hasHeader(lines []string, header string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return strings.EqualFold(name, header)
	})
}

// headerValue returns the value of a header, or "" unless it is sent once.
func headerValue(lines []string, header string) (value string) {
	times := 0
	for _, line := range lines {
		if name, text, _ := strings.Cut(line, ":"); strings.EqualFold(name, header) {
			value = strings.Trim(strings.ReplaceAll(text, "\r\n", ""), " \t")
			times++
		}
	}
	if times != 1 {
		return ""
	}
	return value
}

// check checks the headers and the body that belong to a status.
func (m model) check(t *testing.T, got response, method, path, name string) {
	t.Helper()
	if challenged := got.header.Get("WWW-Authenticate") != ""; challenged != (got.status == 401) {
		t.Errorf("%s with %s: %d with WWW-Authenticate %q", method, name, got.status, got.header.Get("WWW-Authenticate"))
	}
	var allowed []string
	if got.status == 405 {
		for _, route := range m.routesOf(path) {
			allowed = append(allowed, route.Method)
		}
	}
	if allow := got.header.Get("Allow"); allow != strings.Join(allowed, ", ") {
		t.Errorf("%s %s with %s: %d with Allow %q, want %v", method, path, name, got.status, allow, allowed)
	}
	if method == "HEAD" || got.status == 200 {
		return
	}
	if code := got.object()["code"]; code == nil {
		t.Errorf("%s with %s: %d without a code: %s", method, name, got.status, got.body)
	}
}

// rawClient sends requests byte by byte as given.
type rawClient struct {
	h      *harness
	conn   net.Conn
	reader *bufio.Reader
}

func (h *harness) newRawClient() *rawClient { return &rawClient{h: h} }

// send sends one request, on the previous connection if it is still open.
func (w *rawClient) send(method, target string, lines []string, body string) response {
	w.h.t.Helper()
	if w.conn == nil {
		w.conn = w.h.dial()
		w.conn.SetDeadline(time.Now().Add(2 * time.Minute))
		w.reader = bufio.NewReader(w.conn)
	}
	lines = append([]string{method + " " + target + " HTTP/1.1", "Host: x"}, lines...)
	if body != "" {
		lines = append(lines, fmt.Sprint("Content-Length: ", len(body)))
	}
	must(io.WriteString(w.conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+body))(w.h.t)
	got := must(http.ReadResponse(w.reader, &http.Request{Method: method}))(w.h.t)
	var content []byte
	isStream := got.Header.Get("Content-Type") == "text/event-stream" && method != "HEAD" // which does not end
	if !isStream {
		content = must(io.ReadAll(got.Body))(w.h.t)
	}
	if got.Close || isStream {
		w.conn.Close()
		w.conn = nil
	}
	return response{t: w.h.t, status: got.StatusCode, header: got.Header, body: content}
}
