package main

import (
	"context"
	"crypto/rand"
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

// shutdownTimeout is the grace period for running downloads at shutdown.
const shutdownTimeout = 30 * time.Second

// run serves until ctx ends. It prints the banner to stdout and logs to stderr.
func run(ctx context.Context, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	c, err := readConfig(lookup)
	if err != nil {
		return err
	}
	if !c.adminKeyGiven {
		c.adminKeys = []string{"admin_" + rand.Text()}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: c.logLevel}))
	fetcher, err := fetch.New(&fetch.Options{AllowedHosts: c.allowedHosts, Logger: log})
	if err != nil {
		return fmt.Errorf("EXPORT_ALLOWED_HOSTS: %w", err)
	}
	buckets, err := c.objectStore.openers(ctx, log)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", c.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program; choose another address with ADDR=127.0.0.1:8081", c.addr)
	}
	if err != nil {
		return err
	}
	defer listener.Close()

	db, err := openStorage(ctx, c.databaseURL)
	if err != nil {
		return err
	}
	defer db.close()

	baseURL := localURL(listener.Addr())
	openers, staticDirs, err := openFiles(c, baseURL)
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
	closeMetrics, err := serveMetrics(c.metricsAddr, meter.Handler(), log)
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
	if c.clientIP != "" {
		options.AuthRateLimit.ClientIP = clientIPFrom(c.clientIP)
	}
	api, err := httpapi.New(options)
	if err != nil {
		return fmt.Errorf("ADMIN_API_KEY or CORS_ORIGINS: %w", err)
	}
	seeded, err := s.seed(ctx, c.demo, baseURL)
	if err != nil {
		return fmt.Errorf("create sample data: %w", err)
	}
	if err := writeBanner(stdout, c, baseURL, seeded); err != nil {
		return err
	}

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
	return serve(ctx, listener, withPages(api, c.basePath, pages), s, log)
}

// serveMetrics serves handler at addr until stop is called. If addr is empty it does
// nothing.
func serveMetrics(addr string, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var running sync.WaitGroup
	running.Go(func() { server.Serve(listener) })
	log.Info("metrics", "url", localURL(listener.Addr())+"/metrics")
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
// then waits up to shutdownTimeout for running downloads.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, s services, log *slog.Logger) error {
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
	log.Info("shutting down", "timeout", shutdownTimeout)
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdownCtx); err != nil {
		log.Warn("shutdown timeout reached, closing connections", "error", err)
		server.Close()
	}
	if err := s.exports.Flush(shutdownCtx); err != nil {
		log.Warn("facts about files are not stored", "error", err)
	}
	return nil
}
