//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres/pgtest"
)

var soakFlag = flag.Duration("soak", 3*time.Second, "how long TestSoak puts load on each storage")

// TestSoak runs the built program under load for a while: all routes, keys that
// are revoked in use, clients that leave, and faults that hit the program or
// its database. It fails if a revoked key is taken, if something acknowledged
// is lost, if an answer is torn or unexpected, or if memory goes on growing.
func TestSoak(t *testing.T) {
	program := build(t)
	t.Run("sqlite", func(t *testing.T) {
		s := newSoak(t, program, "sqlite:"+filepath.Join(t.TempDir(), "soak.db"))
		s.run(*soakFlag, func() { s.freeze(time.Second) })
	})
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.Start(t)
		s := newSoak(t, program, database.DSN())
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
	program string
	env     []string
	url     string
	client  *http.Client
	tallies tallies

	process *exec.Cmd
	faults  int
	calm    atomic.Bool // no fault is under way, nor has been for a moment
	origin  string      // serves soakFile to the program
}

const soakAdminKey = "an admin key for the soak"

// soakFile is too long to be known whole before it is passed on.
var soakFile = bytes.Repeat([]byte("canvasback "), 200_000)

func newSoak(t *testing.T, program, databaseURL string) *soak {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String() // the same after a crash
	listener.Close()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(soakFile))
	}))
	t.Cleanup(origin.Close)
	s := &soak{
		t:       t,
		program: program,
		env:     []string{"ADDR=" + address, "DATABASE_URL=" + databaseURL, "ADMIN_API_KEY=" + soakAdminKey, "LOG_LEVEL=error", "EXPORT_ALLOWED_HOSTS=" + strings.TrimPrefix(origin.URL, "http://")},
		origin:  origin.URL,
		url:     "http://" + address + "/api",
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start runs the program until it answers.
func (s *soak) start() {
	s.process = exec.Command(s.program)
	s.process.Env = append(os.Environ(), s.env...)
	s.process.Dir = s.t.TempDir()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		response, err := s.client.Get(strings.TrimSuffix(s.url, "/api") + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	s.t.Fatal("the program does not answer")
}

func (s *soak) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// crash ends the program as a power cut would, and starts it again.
func (s *soak) crash() {
	s.kill()
	s.start()
}

// freeze stops the program for a while without ending it.
func (s *soak) freeze(d time.Duration) {
	s.process.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	s.process.Process.Signal(syscall.SIGCONT)
}

// run puts load on the program, with the faults in turn. In the first third of
// the time every other fault is a crash of the program; after that it lives on,
// so that its memory can be watched.
func (s *soak) run(duration time.Duration, faults ...func()) {
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
	var memory []int // of the process that lives on, after each fault
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
	after, most := residentMemory(s.process.Process.Pid)
	s.t.Logf("%d faults; memory of the program: %d MiB before, %d MiB after, %d MiB at most since its last start, and after each fault since then %v",
		s.faults, before, after, most, memory)
	if s.faults == 0 {
		s.t.Error("no fault has happened")
	}
	if most > 400 {
		s.t.Errorf("the program took %d MiB", most)
	}
}

// outcome is an answer, or the reason why there is none.
type outcome struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// unknown reports whether a change may have been made or not.
func (o outcome) unknown() bool { return o.err != nil || o.status >= 500 }

// send makes a request and notes how it went. What is not among the expected
// statuses is an error while there is no fault.
func (s *soak) send(kind, method, path, body string, expected []int, headers ...string) outcome {
	calm := s.calm.Load()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return outcome{err: err}
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json") // unless headers say otherwise
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
	end := fmt.Sprint(out.status)
	switch {
	case out.err == nil:
	case errors.Is(out.err, syscall.ECONNREFUSED):
		end = "refused"
	case out.status != 0:
		end = "torn"
	default:
		end = "no answer"
	}
	s.tallies.add(kind, end, time.Since(start))
	good := out.err == nil
	if good {
		good = false
		for _, status := range expected {
			good = good || status == out.status
		}
	}
	if !good && calm && s.calm.Load() {
		s.t.Errorf("%s: %s %s: %s %v %.200s", kind, method, path, end, out.err, out.body)
	}
	return out
}
