// Package conform tests a server of the API from outside: a deployment, what a proxy
// in front of one delivers, or another implementation.
//
//	func TestDeployment(t *testing.T) {
//		conform.Run(t, conform.Options{
//			BaseURL:  "https://viewer.example/api",
//			AdminKey: os.Getenv("CANVASBACK_ADMIN_KEY"),
//		})
//	}
//
// Without a program of one's own, the admin key comes from the environment variable
// CANVASBACK_ADMIN_KEY:
//
//	go test -count=1 example.com/canvasback/httpapi/conform -url https://viewer.example/api
//
// The tests need no other access than HTTP. They create keys, folders and exports with
// random names, delete them at the end, and do not depend on other data. Download links
// that they create expire with their keys.
package conform

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Options describe the server.
type Options struct {
	// BaseURL is the URL of the routes. A trailing slash is ignored.
	BaseURL string

	// AdminKey is a valid admin key.
	AdminKey string

	// FileURL is the URL of a file of at least 100 bytes that the server may fetch.
	// Without it the tests download no file.
	FileURL string

	// Client sends the requests; a client with a timeout of a minute if nil. The tests
	// need responses as they are: it must not follow redirects.
	Client *http.Client
}

// Run tests the server. It runs a subtest for each area, one at a time.
func Run(t *testing.T, options Options) {
	t.Helper()
	options.BaseURL = strings.TrimRight(options.BaseURL, "/")
	if options.Client == nil {
		options.Client = &http.Client{
			Timeout:       time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	for _, area := range []struct {
		name string
		test func(*suite)
	}{
		{"errors", testErrors},
		{"admin key", testAdminKey},
		{"keys", testKeys},
		{"revocation", testRevocation},
		{"scopes", testScopes},
		{"tokens", testTokens},
		{"folders", testFolders},
		{"symbols", testSymbols},
		{"conditions", testConditions},
		{"lists", testLists},
		{"bundles", testBundles},
		{"changes", testChanges},
		{"registration", testRegistration},
		{"downloads", testDownloads},
		{"links", testLinks},
	} {
		t.Run(area.name, func(t *testing.T) {
			s := &suite{T: t, options: options}
			s.key, s.keyID = s.createKey(`{"name":` + quote(randomName()) + `}`)
			area.test(s)
		})
	}
}

// suite is one test with a client key of its own.
type suite struct {
	*testing.T
	options Options
	key     string // raw
	keyID   string
}

// randomName returns a name that no other data has.
func randomName() string { return "conform " + rand.Text()[:10] }

func quote(text string) string {
	body, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(body)
}

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
	r, err := s.try(s.Context(), method, path, body, headers...)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (s *suite) try(ctx context.Context, method, path, body string, headers ...string) (*response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.options.BaseURL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
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
	got, err := s.options.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	return &response{s, method + " " + path, got.StatusCode, got.Header, string(content)}, err
}

// want fails the test unless the response has the status.
func (r *response) want(status int) *response {
	r.Helper()
	if r.status != status {
		r.Fatalf("%s: status %d, want %d: %.500s", r.request, r.status, status, r.body)
	}
	return r
}

// wantError fails the test unless the response is an error with the status and the
// code, whose message starts with the prefix.
func (r *response) wantError(status int, code, prefix string) {
	r.Helper()
	r.want(status)
	var body struct{ Message, Code, RequestID string }
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		r.Fatalf("%s: %v in %.500s", r.request, err, r.body)
	}
	if body.Code != code || body.Message == "" || !strings.HasPrefix(body.Message, prefix) {
		r.Errorf("%s: code %q and message %q, want %q and %q", r.request, body.Code, body.Message, code, prefix)
	}
	if id := r.header.Get("X-Request-Id"); id == "" || id != body.RequestID {
		r.Errorf("%s: requestId is %q, X-Request-Id %q", r.request, body.RequestID, id)
	}
	if challenged := r.header.Get("WWW-Authenticate") != ""; challenged != (status == http.StatusUnauthorized) {
		r.Errorf("%s: status %d with WWW-Authenticate %q", r.request, status, r.header.Get("WWW-Authenticate"))
	}
}

// wantHeader fails the test unless a header has the value.
func (r *response) wantHeader(name, want string) *response {
	r.Helper()
	if got := r.header.Get(name); got != want {
		r.Errorf("%s: %s is %q, want %q", r.request, name, got, want)
	}
	return r
}

// wantBody fails the test unless the body is equal.
func (r *response) wantBody(want string) *response {
	r.Helper()
	if r.body != want {
		r.Errorf("%s: body is %.300q, want %.300q", r.request, r.body, want)
	}
	return r
}

// decode decodes the body.
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

// sameJSON fails the test unless two JSON texts have the same value.
func sameJSON(s *suite, got, want string) {
	s.Helper()
	var values [2]any
	for i, text := range []string{got, want} {
		if err := json.Unmarshal([]byte(text), &values[i]); err != nil {
			s.Fatalf("%v in %.500s", err, text)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		s.Errorf("body is %.500s, want %.500s", got, want)
	}
}

// record is a JSON object.
type record map[string]any

// id returns the id as it stands in paths.
func (r record) id() string { return fmt.Sprintf("%.0f", r["id"]) }

// deleteLater deletes a record at the end of the test, unless it is gone.
func (s *suite) deleteLater(path string) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := s.try(ctx, "DELETE", path, "", "x-api-key", s.key)
		if err != nil {
			s.Errorf("DELETE %s: %v", path, err)
		} else if r.status != 200 && r.status != 404 {
			s.Errorf("DELETE %s: status %d: %s", path, r.status, r.body)
		}
	})
}
