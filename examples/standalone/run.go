package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
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
	p := &program{config: c, log: newLogger(c, stderr)}
	defer p.close()
	for _, name := range misspelled(environ) {
		p.log.Warn("unknown environment variable", "error", name)
	}

	startup, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.open(startup); err != nil {
		return err
	}
	if err := p.createServices(startup); err != nil {
		return err
	}
	handler, err := p.handler(limitMemory(lookup, os.ReadFile))
	if err != nil {
		return err
	}
	if err := p.announce(ctx, stdout); err != nil {
		return err
	}
	listener, err := p.startTLS()
	if err != nil {
		return err
	}
	return p.services.serve(ctx, listener, handler, p.shutdownTimeout, p.log)
}

// program is what run opens and creates.
type program struct {
	config
	log     *slog.Logger
	closers []func() // called in reverse order

	remote     []exports.Opener // of files on other servers
	root       *os.Root         // of EXPORT_DIR, or nil
	db         *database
	listener   net.Listener
	url        string // of this server, without a trailing slash
	samplesURL string

	openers    []exports.Opener // of all files
	staticDirs map[string]fs.FS // by URL path
	services   services
}

func (p *program) close() {
	for _, f := range slices.Backward(p.closers) {
		f()
	}
}

// open opens what the configuration names, and migrates the database. The port comes
// after the database, so that a mistake in DATABASE_URL is reported first.
func (p *program) open(ctx context.Context) (err error) {
	fetcher, err := fetch.New(&fetch.Options{AllowedHosts: p.allowedHosts, Logger: p.log, RequestID: httpapi.RequestIDFromContext})
	if err != nil {
		return fmt.Errorf("EXPORT_ALLOWED_HOSTS: %w", err)
	}
	if p.remote, err = p.objectStore.openers(ctx, p.log); err != nil {
		return err
	}
	p.remote = append(p.remote, fetcher)
	if p.exportDir != "" {
		if p.root, err = os.OpenRoot(p.exportDir); err != nil { // symbolic links cannot leave it
			return fmt.Errorf("EXPORT_DIR: %w", err)
		}
		p.closers = append(p.closers, func() { p.root.Close() })
	}
	if p.db, err = openStorage(ctx, p.databaseURL); err != nil {
		return err
	}
	p.closers = append(p.closers, p.db.close)
	if p.listener, err = listen("ADDR", p.addr); err != nil {
		return err
	}
	p.closers = append(p.closers, func() { p.listener.Close() })
	return p.db.migrate(ctx)
}

// createServices creates the services on the database and the exported files.
func (p *program) createServices(ctx context.Context) (err error) {
	p.url = p.baseURL(p.listener.Addr())
	warnShared(p.config, p.db, p.log)
	if p.samplesURL, err = samplesURL(ctx, p.config, p.db, p.url); err != nil {
		return err
	}
	local, staticDirs, err := openFiles(p.config, p.root, p.url, p.samplesURL)
	if err != nil {
		return err
	}
	p.openers, p.staticDirs = slices.Concat(local, p.remote), staticDirs
	clientKeys, err := keys.NewService(p.db.Keys(), &keys.Options{Logger: p.log})
	if err != nil {
		return err
	}
	symbolService, err := symbols.NewService(p.db.Symbols(), nil)
	if err != nil {
		return err
	}
	exportService, err := exports.NewService(p.db.Exports(), &exports.Options{Openers: p.openers, LinkLifetime: p.linkLifetime})
	if err != nil {
		return err
	}
	p.services = services{keys: clientKeys, symbols: symbolService, exports: exportService}
	return nil
}

// handler returns the handler of the API and the pages beside it.
func (p *program) handler(memoryBudget int64) (http.Handler, error) {
	observe, err := p.startMetrics()
	if err != nil {
		return nil, err
	}
	options := httpapi.Options{
		Keys:                      p.services.keys,
		Symbols:                   p.services.symbols,
		Exports:                   p.services.exports,
		AdminKeys:                 p.adminKeys,
		RegisterWith:              p.registerWith,
		DangerouslySkipClientKeys: !p.protect,
		Prefix:                    p.basePath,
		AllowedOrigins:            p.corsOrigins,
		ClientIP:                  p.clientIPs.function(),
		Limits:                    httpapi.Limits{Memory: memoryBudget},
		Observe:                   observe,
		Logger:                    p.log,
	}
	api, err := httpapi.New(&options)
	if err != nil {
		return nil, fmt.Errorf("ADMIN_API_KEY or CORS_ORIGINS: %w", err)
	}
	pages, err := newPages(api, p.basePath, p.staticDirs)
	if err != nil {
		return nil, err
	}
	return withPages(api, p.basePath, pages), nil
}

// startMetrics serves the metrics at METRICS_ADDR. It returns the function that counts
// and logs requests.
func (p *program) startMetrics() (observe func(context.Context, httpapi.Observation), err error) {
	meter, logRequest := metrics.New(p.services.keys, p.services.exports, p.openers...), httpapi.LogRequests(p.log)
	if p.db.poolStats != nil {
		meter.AddPool(p.db.poolStats)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", meter.Handler())
	stop, err := serveBeside("METRICS_ADDR", p.metricsAddr, mux, p.log)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, stop)
	return func(ctx context.Context, o httpapi.Observation) {
		meter.Observe(ctx, o)
		logRequest(ctx, o)
	}, nil
}

// announce creates the sample data and prints the banner.
func (p *program) announce(ctx context.Context, stdout io.Writer) error {
	seeded, err := p.services.seed(ctx, p.demo, p.samplesURL)
	if err != nil {
		return fmt.Errorf("create sample data: %w", err)
	}
	if err := writeBanner(stdout, p.config, p.url, p.listener.Addr(), seeded); err != nil {
		return err
	}
	p.log.Info("listening", "address", p.listener.Addr().String(), "url", p.url+p.basePath, "storage", redactPassword(p.databaseURL), "version", version())
	return nil
}

// startTLS returns the listener to serve on: that of ADDR, with TLS if it is enabled.
func (p *program) startTLS() (net.Listener, error) {
	if !p.tls.enabled() {
		return p.listener, nil
	}
	manager, err := p.tls.manager()
	if err != nil {
		return nil, err
	}
	if p.tls.httpAddr != "" { // HTTPHandler enables HTTP-01
		stop, err := serveBeside("TLS_HTTP_ADDR", p.tls.httpAddr, manager.HTTPHandler(redirectTo(p.url)), p.log)
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, stop)
	}
	return tls.NewListener(p.listener, p.tls.config(manager, p.log)), nil
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
