package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
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

// TestFirstMinutes does with a real shell what the banner suggests.
func TestFirstMinutes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := launch(t, map[string]string{"DATABASE_URL": databaseURL})
		dir := t.TempDir()
		shell := exec.CommandContext(t.Context(), "bash", "-eu")
		shell.Dir = dir
		_, script, _ := strings.Cut(s.banner, "Paste into another terminal:")
		script, _, _ = strings.Cut(script, "Stop with")
		shell.Stdin = strings.NewReader(script)
		out, err := shell.CombinedOutput()
		is.NoErr(err)
		text := string(out)
		for _, want := range []string{`"apiKey":"cbk_`, `[{"id":1,"name":"P&ID symbols"}]`, `"name":"Gate valve"`, `"code":"unauthorized"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the answers lack %s:\n%.3000s", want, text)
			}
		}
		pdf, err := os.ReadFile(filepath.Join(dir, "Pump datasheet.pdf"))
		is.NoErr(err)
		is.True(bytes.HasPrefix(pdf, []byte("%PDF-")))
		archive, err := zip.OpenReader(filepath.Join(dir, "canvas-exports.zip"))
		is.NoErr(err)
		defer archive.Close()
		is.Equal(len(archive.File), 3)
		is.NoErr(s.stop())

		secret := regexp.MustCompile(`ADMIN_KEY=(\S+)`).FindStringSubmatch(s.banner)[1]
		is.Equal(strings.Count(s.banner, secret), 1) // shown once
		raw := regexp.MustCompile(`CLIENT_KEY=(cbk_\S+)`).FindStringSubmatch(s.banner)[1]
		is.Equal(strings.Count(s.banner, raw), 1)
		is.True(!strings.Contains(s.log.String(), secret)) // and nowhere else
		is.True(!strings.Contains(s.log.String(), raw[10:]))
	})
}

func TestRestart_keepsEverythingAndUsesNoIDAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		if databaseURL == "memory:" {
			return // it forgets, as it says
		}
		is := is.New(t)
		env := map[string]string{"DATABASE_URL": databaseURL, "DEMO": "false", "ADMIN_API_KEY": "one, two", "BASE_PATH": ""}
		admin := []string{"x-admin-key", "two"}
		s := launch(t, env)
		issued := s.object(201, "POST", "/admin/api-keys", `{"name":"k"}`, admin...)
		raw := issued["apiKey"].(string)
		client := []string{"x-api-key", raw}
		is.Equal(s.object(201, "POST", "/symbol/folders", `{"name":"A"}`, client...)["id"], 1.0)
		is.Equal(s.object(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 2.0)
		is.Equal(s.object(201, "POST", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"ü"}`, client...)["id"], 1.0)
		is.Equal(s.object(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 2.0)
		s.object(200, "DELETE", "/symbol/folders/2", "", client...)
		s.object(200, "DELETE", "/symbol/symbols/2", "", client...)
		s.object(201, "POST", "/admin/api-keys", "", admin...)
		s.object(200, "DELETE", "/admin/api-keys/2", "", admin...)
		used := s.object(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"]
		is.True(used != nil)
		is.NoErr(s.stop())

		s = launch(t, env)
		is.Equal(s.object(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"], used) // written at the end
		is.Equal(s.object(200, "GET", "/symbol/symbols/1", "", client...)["data"], "ü")
		is.Equal(s.object(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 3.0)
		is.Equal(s.object(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 3.0)
		is.Equal(s.object(201, "POST", "/admin/api-keys", "", admin...)["key"].(map[string]any)["id"], 3.0)
		is.True(!strings.Contains(s.log.String(), raw[10:]))
	})
}

func TestRaces(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := launch(t, map[string]string{"DATABASE_URL": databaseURL, "PROTECT_ROUTES": "false", "DEMO": "false"})
		count := func(n int, f func(i int) int) map[int]int {
			statuses := make([]int, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { statuses[i] = f(i) })
			}
			wg.Wait()
			counts := map[int]int{}
			for _, status := range statuses {
				counts[status]++
			}
			return counts
		}
		for round := range 5 {
			counts := count(24, func(int) int {
				status, _ := s.send("POST", "/symbol/folders", fmt.Sprintf(`{"name":"same %d"}`, round))
				return status
			})
			is.Equal(counts, map[int]int{201: 1, 409: 23}) // one creation wins

			_, body := s.send("GET", "/symbol/folders", "")
			var folders []struct{ ID int64 }
			is.NoErr(json.Unmarshal(body, &folders))
			folder := fmt.Sprintf("/symbol/folders/%d", folders[0].ID)
			var created sync.Map
			counts = count(24, func(i int) int {
				if i == 12 {
					status, _ := s.send("DELETE", folder, "")
					return status
				}
				status, body := s.send("POST", folder+"/symbols", `{"name":"x","type":"a/b","data":"y"}`)
				if status == 201 {
					var symbol struct{ ID int64 }
					if json.Unmarshal(body, &symbol) == nil {
						created.Store(symbol.ID, true)
					}
				}
				return status
			})
			is.Equal(counts[200], 1)                          // the deletion
			is.Equal(counts[200]+counts[201]+counts[404], 24) // and nothing else
			created.Range(func(id, _ any) bool {
				status, _ := s.send("GET", fmt.Sprintf("/symbol/symbols/%d", id), "")
				is.Equal(status, 404) // no orphan
				return true
			})
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "sub", "plan.pdf"), []byte("plan"), 0o600))
	s := launch(t, map[string]string{"DATABASE_URL": "memory:", "EXPORT_DIR": dir, "PROTECT_ROUTES": "false"})
	own := strings.TrimSuffix(s.url, "/api")
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/files/sub/plan.pdf": 200, "/samples/datasheet.pdf": 200,
		"/files/": 404, "/files/sub/": 404, "/files/sub": 404, "/files/nope": 404, "/files/../standalone.go": 404, "/nope": 404, "/api": 404, "/api/": 404, "/api//symbol/folders": 404,
	} {
		status, body := s.send("GET", own+path, "")
		if status != want && !(path == "/files/sub" || path == "/files/../standalone.go") {
			t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
		}
	}
	address := own + "/files/sub/plan.pdf"
	s.object(201, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, address))
	status, body := s.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"s"}`)
	is.Equal(status, 200)
	is.Equal(string(body), "plan") // read from disk, although the address is private
	s.object(400, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, own+"/healthz"))
}

// TestConsole looks for the console, and for what it may not stand in front of.
func TestConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for base, api := range map[string]string{"": "./", "/api": "./api/", "/v1/canvas": "./v1/canvas/"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			s := launch(t, map[string]string{"DATABASE_URL": "memory:", "BASE_PATH": base, "EXPORT_DIR": dir, "ADMIN_API_KEY": "one"})
			own := strings.TrimSuffix(s.url, base)
			if !strings.Contains(s.banner, own+"/\n") {
				t.Errorf("the banner lacks the console's address:\n%.500s", s.banner)
			}
			status, page := s.send("GET", own+"/", "")
			if status != 200 || !strings.Contains(string(page), `data-api="`+api+`"`) {
				t.Fatalf("GET /: %d %.200s, want a page that knows the API at %s", status, page, api)
			}
			files := regexp.MustCompile(`(?:src|href)="([a-z.]+)"`).FindAllStringSubmatch(string(page), -1)
			if len(files) < 3 {
				t.Errorf("the page names %d files", len(files))
			}
			for _, file := range files {
				if status, _ := s.send("GET", own+"/"+file[1], ""); status != 200 {
					t.Errorf("GET /%s: %d", file[1], status)
				}
			}
			for path, want := range map[string]int{
				s.url + "/admin/api-keys": 200, s.url + "/symbol/folders": 401, own + "/healthz": 200, own + "/readyz": 200,
				own + "/samples/datasheet.pdf": 200, own + "/files/nope": 404, own + "/nope": 404,
				own + "//healthz": 404, own + "//": 404, own + "/samples": 404, own + "/./healthz": 404, own + "/x/../healthz": 404, own + "/nope.js": 404, own + "/console.go": 404,
			} {
				if status, body := s.send("GET", path, "", "x-admin-key", "one"); status != want {
					t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
				}
			}
			if status, body := s.send("POST", own+"/", ""); status != 404 || !strings.Contains(string(body), `"code":"not_found"`) {
				t.Errorf("POST /: %d %s, want the API's 404", status, body)
			}
		})
	}
}

// SQLite would give each connection a database of its own.
func TestConfig_refusesSQLiteWithoutAFile(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"sqlite:", "sqlite: ", "sqlite::memory:"} {
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": address}
		lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := run(ctx, lookup, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%q: %v, want an error that names the variable", address, err)
		}
	}
}

func TestConfig_refuses(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"ADDR": "8080", "PROTECT_ROUTES": "maybe", "REGISTER_WITH": "everyone", "DEMO": "perhaps", "LOG_LEVEL": "loud", "DATABASE_URL": "mysql://x",
		"EXPORT_DIR": "/does/not/exist", "BASE_PATH": "/a?b", "CORS_ORIGINS": "viewer.example", "EXPORT_ALLOWED_HOSTS": "http://x",
	} {
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:", name: value}
		lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
		err := run(t.Context(), lookup, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v, want an error that names the variable", name, value, err)
		}
		if !strings.Contains(usage(), name) {
			t.Errorf("-h does not list %s", name)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	s := launch(t, map[string]string{"DATABASE_URL": "memory:"})
	addr := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/api")
	lookup := func(name string) (string, bool) { return map[string]string{"ADDR": addr}[name], name == "ADDR" }
	err := run(t.Context(), lookup, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("starting twice on %s: %v", addr, err)
	}
}
