package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"example.com/canvasback/httpapi"
)

// listen listens at addr, the value of the variable name.
func listen(name, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use by another program; set %s to another", name, addr, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return listener, nil
}

func (p *program) newServer(handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ErrorLog: log.New(&serverLog{log: p.log}, "", 0)}
	httpapi.ConfigureServer(server)
	return server
}

// serverLog logs errors of connections at debug level, because clients cause them. Once a
// minute it warns if none can be accepted, such as without file descriptors.
type serverLog struct {
	log    *slog.Logger
	warned time.Time
}

func (l *serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(line, []byte("http: Accept error")) && time.Since(l.warned) > time.Minute {
		level, l.warned = slog.LevelWarn, time.Now()
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// serveBeside serves handler at addr, the value of the variable name, until the program
// closes. If addr is empty it does nothing.
func (p *program) serveBeside(name, addr string, handler http.Handler) error {
	if addr == "" {
		return nil
	}
	listener, err := listen(name, addr)
	if err != nil {
		return err
	}
	server := p.newServer(handler)
	var running sync.WaitGroup
	running.Go(func() { server.Serve(listener) })
	p.closers = append(p.closers, running.Wait, func() { server.Close() })
	p.log.Info("listening", "variable", name, "address", listener.Addr().String())
	return nil
}

// serve runs the server and the background work of the services until ctx ends. It
// then waits up to SHUTDOWN_TIMEOUT for running downloads.
func (p *program) serve(ctx context.Context, handler http.Handler) error {
	server := p.newServer(handler)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.api.Keys.Run(background); err != nil {
			p.log.Error("flush of last-used times failed", "error", err)
		}
	})
	if p.db.FreeSpace != nil {
		running.Go(func() { p.watchDisk(background) })
	}
	defer running.Wait()
	defer stop()

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(p.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	p.log.Info("shutting down; a second signal ends the process at once", "timeout", p.shutdownTimeout)
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdownCtx); err != nil {
		p.log.Warn("shutdown timeout reached, closing connections", "error", err)
		server.Close()
	}
	flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.api.Exports.Flush(flushCtx); err != nil {
		p.log.Warn("facts about files are not stored", "error", err)
	}
	p.log.Info("stopped")
	return nil
}

// redirectTo redirects reads to baseURL. It returns an error for other requests,
// because their keys and bodies have been sent in clear text.
func redirectTo(baseURL string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "use "+baseURL, http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, baseURL+r.URL.RequestURI(), http.StatusPermanentRedirect)
	}
}

// watchDisk warns before the disk is full, because no key can be revoked then, and if the
// database is not at its path any more.
func (p *program) watchDisk(ctx context.Context) {
	const little = 256 << 20
	for {
		switch free, err := p.db.FreeSpace(); {
		case err != nil && !errors.Is(err, errors.ErrUnsupported):
			p.log.Error("cannot find the database at its path: what is written may be lost at exit", "error", err)
		case err == nil && free < little:
			p.log.Warn("little space on the disk of the database", "bytes", free)
		}
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return
		}
	}
}
