package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/canvasback/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a running standalone.
type server struct {
	t      *testing.T
	url    string
	banner string
	log    *buffer
	stop   func() error // stops it and returns what run did
}

// buffer is written by the server and read by the test.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var apiLine = regexp.MustCompile(`API +(http://\S+)`)

// launch runs standalone with these variables on a free port.
func launch(t *testing.T, env map[string]string) *server {
	t.Helper()
	variables := map[string]string{"ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug"}
	for name, value := range env {
		variables[name] = value
	}
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := new(buffer), new(buffer)
	done := make(chan error, 1)
	go func() { done <- run(ctx, lookup, stdout, stderr) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if strings.Contains(stdout.String(), "Stop with Ctrl-C") {
			break
		}
		if len(done) > 0 || time.Now().After(deadline) {
			t.Fatalf("standalone did not start: %v\n%s%s", stop(), stdout, stderr)
		}
	}
	s := &server{t: t, url: apiLine.FindStringSubmatch(stdout.String())[1], banner: stdout.String(), log: stderr, stop: stop}
	return s
}

// send makes a request and returns the status and the body.
func (s *server) send(method, path, body string, headers ...string) (int, []byte) {
	s.t.Helper()
	address := path
	if !strings.HasPrefix(path, "http") {
		address = s.url + path
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, content
}

// object is send for an answer that must have a status and be an object.
func (s *server) object(status int, method, path, body string, headers ...string) map[string]any {
	s.t.Helper()
	got, content := s.send(method, path, body, headers...)
	var out map[string]any
	if err := json.Unmarshal(content, &out); err != nil || got != status {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, got, content, status)
	}
	return out
}

// databases are the storages that standalone runs on. A second call with the
// same test opens the same one.
func databases(t *testing.T) map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{
		"memory":   func(*testing.T) string { return "memory:" },
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "odd name?#%41.db") },
		"postgres": func(t *testing.T) string { return pgtest.Database(t) },
	}
}

// eachDatabase runs a test on every storage.
func eachDatabase(t *testing.T, test func(t *testing.T, databaseURL string)) {
	for name, open := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}
