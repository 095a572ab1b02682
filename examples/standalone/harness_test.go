package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// asProgram is a variable that makes the test binary run the program.
const asProgram = "CANVASBACK_TEST_AS_PROGRAM"

var testBinary, _ = os.Executable()

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		flag.CommandLine = flag.NewFlagSet("standalone", flag.ExitOnError)
		main()
		return
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		flag.Set("test.parallel", "8") // they wait for leases, retries and other programs
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

var buildDir string

// unwatchedProgram returns a program without the race detector, which takes memory: this
// binary, or if the tests run with the detector, one that it builds.
var unwatchedProgram = sync.OnceValues(func() (path string, err error) {
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return testBinary, nil
	}
	if buildDir, err = os.MkdirTemp("", "canvasback-standalone-"); err != nil {
		return "", err
	}
	path = filepath.Join(buildDir, "standalone")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// server is a running instance of the program.
type server struct {
	t      *testing.T
	url    string
	banner string
	log    *syncBuffer
	stop   func() error // shuts down and returns the error of run
}

// syncBuffer is a bytes.Buffer that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// waitFor waits until a condition holds. If it never does, the test fails and shows
// the logs.
func waitFor(t testing.TB, condition func() bool, logs ...fmt.Stringer) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the condition never holds:\n%v", logs)
		}
	}
}

// waitForText waits until the first log contains a text.
func waitForText(t testing.TB, text string, logs ...fmt.Stringer) {
	t.Helper()
	waitFor(t, func() bool { return strings.Contains(logs[0].String(), text) }, logs...)
}

// startProcess starts a command. The function kill ends its process, which ends with the
// test at the latest.
func startProcess(t *testing.T, command *exec.Cmd) (ended <-chan struct{}, kill func()) {
	t.Helper()
	is.New(t).NoErr(command.Start())
	waited := make(chan struct{})
	go func() {
		command.Wait()
		close(waited)
	}()
	kill = func() {
		command.Process.Kill()
		<-waited
	}
	t.Cleanup(kill)
	return waited, kill
}

// lookupIn returns an os.LookupEnv for these variables.
func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

var (
	apiLine      = regexp.MustCompile(`API +(http://\S+)`)
	listenerLine = regexp.MustCompile(`Listener +(\S+)`)
)

// startServer runs the program with these variables on a free port, by default with the
// database memory:.
func startServer(t *testing.T, env map[string]string) *server {
	t.Helper()
	variables := map[string]string{
		"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:", "LOG_LEVEL": "debug", "REGISTER_WITH": "client",
	}
	maps.Copy(variables, env)
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := new(syncBuffer), new(syncBuffer)
	done := make(chan error, 1)
	go func() { done <- run(ctx, lookupIn(variables), nil, stdout, stderr) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	waitFor(t, func() bool { return len(done) > 0 || strings.Contains(stdout.String(), "Stop with Ctrl-C") }, stdout, stderr)
	if len(done) > 0 {
		t.Fatalf("server did not start: %v\n%s%s", stop(), stdout, stderr)
	}
	banner := stdout.String()
	s := &server{t: t, banner: banner, log: stderr, stop: stop}
	if listener := listenerLine.FindStringSubmatch(banner); listener != nil {
		s.url = "http://" + listener[1] + "/api"
	} else {
		s.url = apiLine.FindStringSubmatch(banner)[1]
	}
	return s
}

// runError runs the program with these variables, by default with the database memory:,
// and returns its error.
func runError(t *testing.T, env map[string]string) error {
	t.Helper()
	variables := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:"}
	maps.Copy(variables, env)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return run(ctx, lookupIn(variables), nil, io.Discard, io.Discard)
}

// bannerKeys returns the keys that the server has made.
func (s *server) bannerKeys() (admin, client string) {
	admin = regexp.MustCompile(`ADMIN_KEY=(\S+)`).FindStringSubmatch(s.banner)[1]
	return admin, regexp.MustCompile(`CLIENT_KEY=(cbk_\S+)`).FindStringSubmatch(s.banner)[1]
}

// baseURL is the URL without that of the API.
func (s *server) baseURL() string { return strings.TrimSuffix(s.url, "/api") }

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// send sends a request to path below the API, or to an absolute URL. It returns
// the status and the body of the response.
func (s *server) send(method, path, body string, headers ...string) (int, []byte) {
	s.t.Helper()
	target := path
	if !strings.HasPrefix(path, "http") {
		target = s.url + path
	}
	request := must(http.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body)))(s.t)
	if body != "" {
		request.Header.Set("Content-Type", "application/json") // headers may override it
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must(http.DefaultTransport.RoundTrip(request))(s.t)
	defer response.Body.Close()
	return response.StatusCode, must(io.ReadAll(response.Body))(s.t)
}

// status sends a GET request and returns the status of the response.
func (s *server) status(path string, headers ...string) int {
	s.t.Helper()
	status, _ := s.send("GET", path, "", headers...)
	return status
}

// sendText sends a request and returns the body of the response, which must have this
// status.
func (s *server) sendText(status int, method, path, body string, headers ...string) string {
	s.t.Helper()
	got, content := s.send(method, path, body, headers...)
	if got != status {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, got, content, status)
	}
	return string(content)
}

// sendJSON is sendText for a response with a JSON object.
func (s *server) sendJSON(status int, method, path, body string, headers ...string) (out map[string]any) {
	s.t.Helper()
	text := s.sendText(status, method, path, body, headers...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return out
}

// issueKey creates a client key and returns its raw key.
func (s *server) issueKey(body, adminKey string) string {
	s.t.Helper()
	return s.sendJSON(201, "POST", "/admin/api-keys", body, "x-admin-key", adminKey)["apiKey"].(string)
}

// registration, single and batch are bodies of requests for exports.
func registration(source, exportedURL string) string {
	return fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, source, exportedURL)
}

func single(source string) string { return fmt.Sprintf(`{"sourceFileUrl":%q}`, source) }

func batch(sources ...string) string {
	var items []string
	for _, source := range sources {
		items = append(items, single(source))
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

// register registers a new export.
func (s *server) register(source, exportedURL string, headers ...string) {
	s.t.Helper()
	s.sendJSON(201, "POST", "/viewer/exports/register", registration(source, exportedURL), headers...)
}

// eachDatabase runs a subtest for every storage driver.
func eachDatabase(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, "memory:")
	})
	eachPersistentDatabase(t, test)
}

// eachPersistentDatabase runs a subtest for every storage driver whose data
// survives a restart.
func eachPersistentDatabase(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "odd name?#%41.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, pgtest.Database(t))
	})
}

// freeAddr returns an address at which nothing listens. Its port is below those that the
// kernel gives to other tests.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(10000))
		if listener, err := net.Listen("tcp", addr); err == nil {
			listener.Close()
			return addr
		}
	}
	t.Fatal("no address is free")
	return ""
}
