package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// run serves until ctx ends. It prints the banner to stdout and logs to stderr.
// environ is for warnings about variables that nothing reads.
func run(ctx context.Context, lookup func(string) (string, bool), environ []string, stdout, stderr io.Writer) error {
	c, err := readConfig(lookup)
	if err != nil {
		return err
	}
	if !c.adminKeyGiven {
		c.adminKeys = []string{"admin_" + rand.Text()}
	}
	log := newLogger(c, stderr)
	for _, name := range misspelled(environ) {
		log.Warn("unknown environment variable", "error", name)
	}
	fetcher, err := fetch.New(&fetch.Options{AllowedHosts: c.allowedHosts, Logger: log})
	if err != nil {
		return fmt.Errorf("EXPORT_ALLOWED_HOSTS: %w", err)
	}
	buckets, err := c.objectStore.openers(ctx, log)
	if err != nil {
		return err
	}
	var root *os.Root
	if c.exportDir != "" {
		if root, err = os.OpenRoot(c.exportDir); err != nil { // symbolic links cannot leave it
			return fmt.Errorf("EXPORT_DIR: %w", err)
		}
		defer root.Close()
	}
	startup, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, err := openStorage(startup, c.databaseURL)
	if err != nil {
		return err
	}
	defer db.close()

	listener, err := listen("ADDR", c.addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := db.migrate(startup); err != nil {
		return err
	}
	baseURL := c.baseURL(listener.Addr())
	warnShared(c, db, log)
	samplesURL, err := samplesURL(startup, c, db, baseURL)
	if err != nil {
		return err
	}
	openers, staticDirs, err := openFiles(c, root, baseURL, samplesURL)
	if err != nil {
		return err
	}
	openers = slices.Concat(openers, buckets, []exports.Opener{fetcher})
	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{Logger: log})
	if err != nil {
		return err
	}
	s := services{
		keys:    clientKeys,
		symbols: symbols.NewService(db.Symbols(), nil),
		exports: exports.NewService(db.Exports(), &exports.Options{
			Openers:      openers,
			LinkLifetime: c.linkLifetime,
		}),
	}

	meter, logRequest := metrics.New(s.keys, s.exports, openers...), httpapi.LogRequests(log)
	if db.poolStats != nil {
		meter.AddPool(db.poolStats)
	}
	metricsMux := http.NewServeMux()
	metricsMux.Handle("GET /metrics", meter.Handler())
	closeMetrics, err := serveBeside("METRICS_ADDR", c.metricsAddr, metricsMux, log)
	if err != nil {
		return err
	}
	defer closeMetrics()
	options := httpapi.Options{
		Keys:                      s.keys,
		Symbols:                   s.symbols,
		Exports:                   s.exports,
		AdminKeys:                 c.adminKeys,
		RegisterWith:              c.registerWith,
		DangerouslySkipClientKeys: !c.protect,
		Prefix:                    c.basePath,
		AllowedOrigins:            c.corsOrigins,
		MemoryBudget:              limitMemory(lookup, os.ReadFile),
		Observe: func(ctx context.Context, o httpapi.Observation) {
			meter.Observe(ctx, o)
			logRequest(ctx, o)
		},
		Logger: log,
	}
	options.AuthRateLimit.ClientIP = c.clientIPs.function()
	api, err := httpapi.New(options)
	if err != nil {
		return fmt.Errorf("ADMIN_API_KEY or CORS_ORIGINS: %w", err)
	}
	seeded, err := s.seed(ctx, c.demo, samplesURL)
	if err != nil {
		return fmt.Errorf("create sample data: %w", err)
	}
	if err := writeBanner(stdout, c, baseURL, listener.Addr(), seeded); err != nil {
		return err
	}
	log.Info("listening", "address", listener.Addr().String(), "url", baseURL+c.basePath, "storage", redactPassword(c.databaseURL), "version", version())

	pages := http.NewServeMux()
	for prefix, fsys := range staticDirs {
		pages.Handle("GET "+prefix, http.StripPrefix(prefix, fileServer(fsys)))
	}
	web, err := console.New(console.Options{API: "." + c.basePath + "/"})
	if err != nil {
		return err
	}
	pages.Handle("GET /{$}", web)
	for _, file := range console.Files() { // one route per file, because the API may be mounted at the root
		pages.Handle("GET /"+file, web)
	}
	pages.Handle("GET /healthz", httpapi.Alive())
	pages.Handle("GET /readyz", api.Ready())
	handler := withPages(api, c.basePath, pages)
	if !c.tls.enabled() {
		return s.serve(ctx, listener, handler, c.shutdownTimeout, log)
	}
	manager, err := c.tls.manager()
	if err != nil {
		return err
	}
	if c.tls.httpAddr != "" { // HTTPHandler enables HTTP-01
		closeHTTP, err := serveBeside("TLS_HTTP_ADDR", c.tls.httpAddr, manager.HTTPHandler(redirectTo(baseURL)), log)
		if err != nil {
			return err
		}
		defer closeHTTP()
	}
	return s.serve(ctx, tls.NewListener(listener, c.tls.config(manager, log)), handler, c.shutdownTimeout, log)
}

func newLogger(c config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.logLevel}
	if c.logJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// warnShared warns about settings that each process on a shared database chooses for
// itself.
func warnShared(c config, db *database, log *slog.Logger) {
	if !db.shared {
		return
	}
	if !c.adminKeyGiven {
		log.Warn("ADMIN_API_KEY is not set: each process on this database has an admin key of its own")
	}
	if c.publicURL == "" && !c.tls.enabled() && c.exportDir != "" && c.exportDirURL == "" {
		log.Warn("PUBLIC_URL is not set: other processes on this database cannot open the files in EXPORT_DIR")
	}
}

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
