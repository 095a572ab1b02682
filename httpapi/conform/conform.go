// Package conform tests a deployment of the API from outside. It checks what a proxy, a
// balancer, a cache or several processes can break: keys and their revocation, methods,
// headers, bodies, conditions, ranges, compression, uploads, and streams of events.
//
//	func TestDeployment(t *testing.T) {
//		conform.Run(t, conform.Options{
//			BaseURL:  "https://viewer.example/api",
//			AdminKey: os.Getenv("CANVASBACK_ADMIN_KEY"),
//		})
//	}
//
// Or without a program of one's own:
//
//	CANVASBACK_ADMIN_KEY=... go test -count=1 example.com/canvasback/httpapi/conform -url https://viewer.example/api
//
// The tests create keys, folders and exports with random names and delete them at the end, which
// leaves folders and symbols in the trash of the server. They do not depend on other data.
package conform

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Options describe the server, which must serve keys, symbols and exports.
type Options struct {
	// BaseURL is the URL of the routes. A trailing slash is ignored.
	BaseURL string

	// AdminKey is a valid admin key.
	AdminKey string

	// FileURL is the URL of a file of at least 100 bytes that the tests may register.
	// Without it the tests download no file.
	FileURL string

	// Transport sends the requests; http.DefaultTransport if nil.
	Transport http.RoundTripper
}

// Run tests the server. It runs a subtest for each area, one at a time.
func Run(t *testing.T, options Options) {
	t.Helper()
	options.BaseURL = strings.TrimRight(options.BaseURL, "/")
	options.Transport = cmp.Or(options.Transport, http.DefaultTransport)
	run := func(area string, test func(*suite)) {
		t.Run(area, func(t *testing.T) {
			s := &suite{T: t, options: options, owner: randomName()}
			created := decode[issued](s.send("POST", "/admin/api-keys", fmt.Sprintf(`{"name":%q,"owner":%q}`, randomName(), s.owner)).want(201))
			s.key, s.keyPath = created.APIKey, "/admin/api-keys/"+created.Key.id()
			s.deleteLater(s.keyPath)
			test(s)
		})
	}
	run("errors", testErrors)
	run("revocation", testRevocation)
	run("symbols", testSymbols)
	run("lists", testLists)
	run("trash", testTrash)
	run("import", testImport)
	run("changes", testChanges)
	run("downloads", testDownloads)
	run("links", testLinks)
}

// suite is one test with a client key of its own.
type suite struct {
	*testing.T
	options Options
	owner   string // of the key, and the tenant of exports
	key     string // raw
	keyPath string
}

// randomName returns a name that no other data has.
func randomName() string { return "conform " + rand.Text()[:10] }

// response is a response with its complete body.
type response struct {
	*suite
	request string
	status  int
	header  http.Header
	body    string
}

// send sends a request with the key that its path requires. Each pair of headers
// replaces a header, or removes it if the value is empty.
func (s *suite) send(method, path, body string, headers ...string) *response {
	s.Helper()
	got := s.open(method, path, body, headers...)
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return &response{s, method + " " + path, got.StatusCode, got.Header, string(content)}
}

// open is send without reading the body of the response.
func (s *suite) open(method, path, body string, headers ...string) *http.Response {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test has ended in cleanups
	s.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, s.options.BaseURL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(path, "/admin/") {
		request.Header.Set("x-admin-key", s.options.AdminKey)
	} else {
		request.Header.Set("x-api-key", s.key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Del(headers[i])
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	got, err := s.options.Transport.RoundTrip(request)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (r *response) want(status int) *response {
	r.Helper()
	if r.status != status {
		r.Fatalf("%s: status %d, want %d: %.500s", r.request, r.status, status, r.body)
	}
	return r
}

// wantError fails the test unless the response is an error with the status and the code.
func (r *response) wantError(status int, code string) *response {
	r.Helper()
	body := decode[struct{ Message, Code, RequestID string }](r.want(status))
	if body.Code != code || body.Message == "" || body.RequestID == "" {
		r.Errorf("%s: error %+v, want the code %q", r.request, body, code)
	}
	return r.wantHeader("X-Request-Id", body.RequestID)
}

func (r *response) wantHeader(name, want string) *response {
	r.Helper()
	if got := r.header.Get(name); got != want {
		r.Errorf("%s: %s is %q, want %q", r.request, name, got, want)
	}
	return r
}

func (r *response) wantBody(want string) *response {
	r.Helper()
	if r.body != want {
		r.Errorf("%s: body is %.300q, want %.300q", r.request, r.body, want)
	}
	return r
}

func decode[T any](r *response) (value T) {
	r.Helper()
	if got := r.header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		r.Errorf("%s: Content-Type is %q", r.request, got)
	}
	if err := json.Unmarshal([]byte(r.body), &value); err != nil {
		r.Fatalf("%s: %v in %.500s", r.request, err, r.body)
	}
	return value
}

type record map[string]any

// id returns the id as it stands in paths.
func (r record) id() string { return fmt.Sprintf("%.0f", r["id"]) }

// deleteLater deletes a record at the end of the test, unless it is gone.
func (s *suite) deleteLater(path string) {
	s.Cleanup(func() {
		if r := s.send("DELETE", path, ""); r.status != 404 {
			r.want(200)
		}
	})
}

// skipIfOpen skips the rest of the test if client routes are open to everyone.
func (s *suite) skipIfOpen() {
	s.Helper()
	if s.send("GET", "/symbol/folders?limit=1", "", "x-api-key", "").status == 200 {
		s.Skip("client routes require no key")
	}
}

// issued is the response to the creation or rotation of a key.
type issued struct {
	APIKey string
	Key    record
}

func (s *suite) createFolder() (path string) {
	s.Helper()
	created := s.send("POST", "/symbol/folders", fmt.Sprintf(`{"name":%q}`, randomName())).want(201)
	path = "/symbol/folders/" + decode[record](created).id()
	s.deleteLater(path)
	return path
}

func (s *suite) createSymbol(folder, name, data string) (path string) {
	s.Helper()
	body := fmt.Sprintf(`{"name":%q,"type":"image/svg+xml","data":%q}`, name, data)
	return "/symbol/symbols/" + decode[record](s.send("POST", folder+"/symbols", body).want(201)).id()
}

// newItem returns a source that is not registered, as an item of requests.
func newItem() string { return fmt.Sprintf(`{"sourceFileUrl":%q}`, randomName()) }

// registerFile registers the file of the options and returns its source as an item. It
// skips the test if there is none. It sends both keys, because the server may require either.
func (s *suite) registerFile() (item string) {
	s.Helper()
	if s.options.FileURL == "" {
		s.Skip("no FileURL")
	}
	item = newItem()
	body := fmt.Sprintf(`%s,"exportedUrl":%q,"fileName":"plan.pdf","tenant":%q}`, strings.TrimSuffix(item, "}"), s.options.FileURL, s.owner)
	created := s.send("POST", "/viewer/exports/register", body, "x-admin-key", s.options.AdminKey).want(201)
	s.deleteLater("/admin/exports/" + decode[struct{ Record record }](created).Record.id())
	return item
}
