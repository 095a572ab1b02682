//go:build unix

package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// TestSignals_FirstWaitsForDownloads checks that a running download continues after
// one signal, and that a second signal ends the process.
func TestSignals_FirstWaitsForDownloads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	more := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			w.Write(make([]byte, 1<<20))
			w.(http.Flusher).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer origin.Close()

	program := programCommand(t, []string{"ADDR=127.0.0.1:0", "DATABASE_URL=memory:", "DEMO=false", "PROTECT_ROUTES=false",
		"EXPORT_ALLOWED_HOSTS=" + strings.TrimPrefix(origin.URL, "http://")})
	banner, log := new(syncBuffer), new(syncBuffer)
	program.Stdout, program.Stderr = banner, log
	ended, _ := startProcess(t, program)
	waitForText(t, "Stop with Ctrl-C", banner, log)

	s := &server{t: t, url: apiLine.FindStringSubmatch(banner.String())[1]}
	s.register("s", origin.URL)
	response, err := http.Post(s.url+"/viewer/exports/download", "application/json", strings.NewReader(single("s")))
	is.NoErr(err)
	defer response.Body.Close()
	_, err = io.CopyN(io.Discard, response.Body, 1<<20)
	is.NoErr(err)

	is.NoErr(program.Process.Signal(syscall.SIGTERM))
	waitForText(t, "a second signal ends the process", log)
	more <- struct{}{}
	_, err = io.CopyN(io.Discard, response.Body, 1<<20)
	is.NoErr(err) // the download continues

	// A second signal is ignored while the program still handles the first.
	waitFor(t, func() bool {
		program.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}, log)
	is.Equal(program.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGTERM)
}

// A program that is stopped while its database does not respond has not failed.
func TestSignals_EndStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	program := programCommand(t, []string{"ADDR=127.0.0.1:0", "DATABASE_URL=postgres://u@" + silent.Addr().String() + "/d"})
	log := new(syncBuffer)
	program.Stderr = log
	ended, _ := startProcess(t, program)
	conn := must(silent.Accept())(t)
	defer conn.Close()
	is.NoErr(program.Process.Signal(syscall.SIGTERM))
	<-ended
	is.Equal(program.ProcessState.ExitCode(), 0)
	is.True(strings.Contains(log.String(), "stopped by a signal while starting"))
}

// noDescriptors accepts nothing, like a process without free file descriptors, until the
// third call.
type noDescriptors struct {
	net.Listener
	calls int
}

func (l *noDescriptors) Accept() (net.Conn, error) {
	if l.calls++; l.calls == 3 {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
}

func TestServer_WarnsIfItAcceptsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var text strings.Builder
	p := &program{log: slog.New(slog.NewTextHandler(&text, nil))}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	is.True(errors.Is(p.newServer(http.NotFoundHandler()).Serve(&noDescriptors{Listener: listener}), net.ErrClosed))
	is.Equal(strings.Count(text.String(), "level=WARN"), 1)
	is.True(strings.Contains(text.String(), "too many open files"))
}
