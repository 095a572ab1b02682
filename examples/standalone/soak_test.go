//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

var soakFlag = flag.Duration("soak", 3*time.Second, "duration of TestSoak per storage driver")

// TestSoak runs the program under load: all routes, revoked keys, clients that
// disconnect, and faults of the program and its database. It fails if a revoked
// key is accepted, an acknowledged write is lost, a response is truncated or
// unexpected, or the program uses more than 400 MiB.
func TestSoak(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := newSoak(t, "sqlite:"+filepath.Join(t.TempDir(), "soak.db"))
		s.run(*soakFlag, func() { s.freeze(time.Second) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Start(t)
		s := newSoak(t, database.DSN())
		s.run(*soakFlag,
			func() { database.Kill(); database.Restart() },
			func() { database.Pause(); time.Sleep(time.Second); database.Resume() },
			func() { s.freeze(time.Second) },
		)
	})
}

// soak is the program under load.
type soak struct {
	t       *testing.T
	command []string
	env     []string
	url     string
	client  *http.Client
	tallies tallies

	process *exec.Cmd
	faults  int
	calm    atomic.Bool // no fault is in progress or has just ended
	origin  string      // URL of an origin server of soakFile
}

const soakAdminKey = "an admin key for the soak"

// soakFile is longer than the part of a file that is prefetched.
var soakFile = bytes.Repeat([]byte("canvasback "), 200_000)

// newSoak returns a soak whose program has not been started.
func newSoak(t *testing.T, databaseURL string) *soak {
	program, err := unwatchedProgram()
	is.New(t).NoErr(err)
	addr := freeAddr(t) // kept across restarts
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(soakFile))
	}))
	t.Cleanup(origin.Close)
	return &soak{
		t:       t,
		command: []string{program},
		env: []string{
			asProgram + "=1", "REGISTER_WITH=client", "ADDR=" + addr, "DATABASE_URL=" + databaseURL,
			"ADMIN_API_KEY=" + soakAdminKey, "LOG_LEVEL=error", "EXPORT_ALLOWED_HOSTS=" + strings.TrimPrefix(origin.URL, "http://"),
		},
		origin: origin.URL,
		url:    "http://" + addr + "/api",
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute},
	}
}

// start starts the program and waits until it is ready. The caller must kill it.
func (s *soak) start() {
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Env = append(os.Environ(), s.env...)
	s.process.Dir = s.t.TempDir()
	is.New(s.t).NoErr(s.process.Start())
	waitFor(s.t, func() bool {
		response, err := s.client.Get(strings.TrimSuffix(s.url, "/api") + "/readyz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
}

func (s *soak) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// crash kills the program and restarts it.
func (s *soak) crash() {
	s.kill()
	s.start()
}

// freeze suspends the program for d.
func (s *soak) freeze(d time.Duration) {
	s.process.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	s.process.Process.Signal(syscall.SIGCONT)
}

// run puts load on the program for duration and injects the faults in turn. In
// the first third every other fault is a crash. After that the process stays, so
// that its memory can be measured.
func (s *soak) run(duration time.Duration, faults ...func()) {
	s.start()
	s.t.Cleanup(s.kill)
	before, _ := residentMemory(s.process.Process.Pid)
	ctx, stop := context.WithTimeout(s.t.Context(), duration)
	defer stop()
	start := time.Now()
	s.calm.Store(true)
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() { s.work(ctx, i) })
	}
	const settle = 500 * time.Millisecond
	pause := min(max(duration/7, settle), 10*time.Second)
	var memory []int // of the current process after each fault
	for crashes := 0; ; {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			break
		}
		s.calm.Store(false)
		if crashes <= s.faults-crashes && time.Since(start) < duration/3 {
			s.crash()
			crashes++
			memory = nil
		} else {
			faults[(s.faults-crashes)%len(faults)]()
		}
		s.faults++
		time.Sleep(settle)
		s.calm.Store(true)
		now, _ := residentMemory(s.process.Process.Pid)
		memory = append(memory, now)
	}
	working.Wait()
	elapsed := time.Since(start)

	s.tallies.report(s.t, elapsed)
	s.client.CloseIdleConnections()
	after, peak := residentMemory(s.process.Process.Pid)
	s.t.Logf("%d faults; resident memory: %d MiB before, %d MiB after, %d MiB peak since the last restart, %v after each fault since then",
		s.faults, before, after, peak, memory)
	is := is.New(s.t)
	is.True(s.faults > 0)
	is.True(peak <= 400)
}

// outcome is a response or the error of a request.
type outcome struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// ambiguous reports whether a write may have been committed without a response.
func (o outcome) ambiguous() bool { return o.err != nil || o.status >= 500 }

// has reports whether the response is complete and has a status.
func (o outcome) has(status int) bool { return o.err == nil && o.status == status }

// decode returns the JSON body of a response, if it has a status.
func decode[T any](o outcome, status int) (value T, ok bool) {
	ok = o.has(status) && json.Unmarshal(o.body, &value) == nil
	return value, ok
}

// record is what all records have.
type record struct{ ID int64 }

// send sends a request and records its outcome. A status that is not expected is
// a test failure unless a fault is in progress.
func (s *soak) send(kind, method, path, body string, expected []int, headers ...string) outcome {
	calm := s.calm.Load()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return outcome{err: err}
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json") // headers may override it
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	response, err := s.client.Do(request)
	var out outcome
	if err == nil {
		out.status, out.header = response.StatusCode, response.Header
		out.body, out.err = io.ReadAll(response.Body)
		response.Body.Close()
	} else {
		out.err = err
	}
	result := fmt.Sprint(out.status)
	switch {
	case out.err == nil:
	case errors.Is(out.err, syscall.ECONNREFUSED):
		result = "connection refused"
	case out.status != 0:
		result = "truncated"
	default:
		result = "no response"
	}
	s.tallies.add(kind, result, time.Since(start))
	ok := out.err == nil && slices.Contains(expected, out.status)
	if !ok && calm && s.calm.Load() {
		s.t.Errorf("%s: %s %s: %s %v %.200s", kind, method, path, result, out.err, out.body)
	}
	return out
}
