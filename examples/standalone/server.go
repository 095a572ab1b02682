package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// listen listens at addr, the value of the variable name.
func listen(name, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program; choose another address with %s=127.0.0.1:8081", addr, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return listener, nil
}

// serveBeside serves handler at addr, the value of the variable name, until stop is
// called. If addr is empty it does nothing.
func serveBeside(name, addr string, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := listen(name, addr)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var running sync.WaitGroup
	running.Go(func() { server.Serve(listener) })
	log.Info("listening", "variable", name, "address", listener.Addr().String())
	return func() {
		server.Close()
		running.Wait()
	}, nil
}

// services are used by the handler and to create the sample data.
type services struct {
	keys    *keys.Service
	symbols *symbols.Service
	exports *exports.Service
}

// serve runs the server and the background work of the services until ctx ends. It
// then waits up to timeout for running downloads.
func (s services) serve(ctx context.Context, listener net.Listener, handler http.Handler, timeout time.Duration, log *slog.Logger) error {
	server := &http.Server{
		Handler:  handler,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	httpapi.ConfigureServer(server)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.keys.Run(background); err != nil {
			log.Error("flush of last-used times failed", "error", err)
		}
	})
	defer running.Wait()
	defer stop()

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("shutting down", "timeout", timeout)
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := server.Shutdown(shutdownCtx); err != nil {
		log.Warn("shutdown timeout reached, closing connections", "error", err)
		server.Close()
	}
	flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.exports.Flush(flushCtx); err != nil {
		log.Warn("facts about files are not stored", "error", err)
	}
	return nil
}
