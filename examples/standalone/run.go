package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"example.com/canvasback/examples/internal/database"
	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
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
	p.warn(environ)
	limit, _ := memlimit.Set(memlimit.WithProvider(goMemory))
	l := &p.api.Limits // the defaults without a memory limit, which is then math.MaxInt64
	l.Memory, l.ListCache = min(limit/4, 256<<20), min(limit/8, 64<<20)
	l.Symbol, l.Import, l.Batch = min(limit/6, 50<<20), min(limit/4, 64<<20), min(limit/16, 16<<20)
	p.symbols.SearchIndex, p.exports.PrefetchBytes = min(limit/8, 64<<20), int(min(limit/8, 40<<20))

	if err := p.openDatabase(ctx); err != nil {
		return err
	}
	startup, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, step := range []func(context.Context) error{p.openFiles, p.createServices, p.observe, p.startTLS} {
		if err := step(startup); err != nil {
			return err
		}
	}
	api, err := httpapi.New(&p.api)
	if err != nil {
		return err
	}
	p.meter.AddAPI(api)
	handler, err := withPages(api, p.api.Prefix, p.db.Fence)
	if err != nil {
		return err
	}
	seeded, err := p.seed(startup)
	if err != nil {
		return fmt.Errorf("create sample data: %w", err)
	}
	p.log.Info("listening", "address", p.listener.Addr().String(), "url", p.url+p.api.Prefix,
		"storage", p.db.Name, "version", version())
	if err := p.writeBanner(stdout, seeded); err != nil {
		return err
	}
	return p.serve(ctx, handler)
}

// goMemory returns the memory limit of the cgroup less what SQLite may need outside of Go's
// for symbols, and for its caches and the program itself.
func goMemory() (uint64, error) {
	limit, err := memlimit.FromCgroup()
	return limit - min(limit/3, 200<<20) - min(limit/4, 16<<20), err
}

func newLogger(c *config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.logLevel}
	if c.logJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// program is what run opens and creates.
type program struct {
	*config // with what the options lack
	log     *slog.Logger
	closers []func() // called in reverse order

	db       *database.Database
	listener net.Listener
	url      string // of this server, without a trailing slash
	meter    *metrics.Metrics
}

func (p *program) close() {
	for _, f := range slices.Backward(p.closers) {
		f()
	}
}

// otherNames are names of variables of other programs, which this one does not read.
var otherNames = map[string]string{
	"LISTEN": "ADDR", "ADMIN_KEY": "ADMIN_API_KEY", "CORS": "CORS_ORIGINS", "METRICS_PORT": "METRICS_ADDR",
	"DATABASE": "DATABASE_URL", "DATABASE_URI": "DATABASE_URL", "DB_URL": "DATABASE_URL",
}

// warn logs what is probably not meant.
func (p *program) warn(environ []string) {
	for _, name := range p.variables().Misspelled(environ, otherNames, "EXPORT_", "LOG_", "TLS_") {
		p.log.Warn("unknown environment variable", "error", name)
	}
	if slices.ContainsFunc(p.api.AdminKeys, isShort) || strings.Contains(p.api.AdminKeys[0], ",") {
		p.log.Warn("ADMIN_API_KEY is short, or has a short part between commas and is one key", "recommendedLength", minAdminKey)
	}
	if p.addrVariable == "PORT" {
		p.log.Info("PORT is set and ADDR is not: listening on all interfaces", "address", p.addr)
	}
}

// openDatabase opens and migrates the database. It listens before it migrates, so that a
// program whose port is in use changes nothing, and after it has opened the database, so
// that a mistake in DATABASE_URL is reported first.
func (p *program) openDatabase(ctx context.Context) (err error) {
	p.postgres.Logger = p.log
	open, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if p.db, err = database.Open(open, p.databaseURL, &p.postgres); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	p.closers = append(p.closers, p.db.Close)
	if p.db.Fence != nil && !p.adminKeyGiven { // other machines may share it
		p.log.Warn("ADMIN_API_KEY is not set: each process on this database has an admin key of its own")
	}
	if p.listener, err = listen(p.addrVariable, p.addr); err != nil {
		return err
	}
	p.closers = append(p.closers, func() { p.listener.Close() })
	p.url = p.urlOf(p.listener.Addr())
	if err := p.db.Migrate(ctx, p.log); err != nil { // for as long as it takes
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	return nil
}

func (p *program) createServices(context.Context) (err error) {
	p.keys.Logger = p.log
	if p.api.Keys, err = keys.NewService(p.db.Keys(), &p.keys); err != nil {
		return err
	}
	p.symbols.TrashLifetime = cmp.Or(p.symbols.TrashLifetime, -1) // no trash
	if p.api.Symbols, err = symbols.NewService(p.db.Symbols(), &p.symbols); err != nil {
		return err
	}
	p.api.Exports, err = exports.NewService(p.db.Exports(), &p.exports)
	return err
}

// observe counts and logs requests, and serves the metrics at METRICS_ADDR.
func (p *program) observe(context.Context) error {
	p.meter = metrics.New(p.api.Keys, p.exports.Openers...)
	if p.db.PoolStats != nil {
		p.meter.AddPool(p.db.PoolStats)
	}
	if p.db.FreeSpace != nil {
		p.meter.AddDisk(p.db.FreeSpace)
	}
	if p.db.Fence != nil {
		p.meter.AddFence(p.db.Fence)
	}
	logRequest := httpapi.LogRequests(p.log)
	p.api.Logger = p.log
	p.api.Observe = func(ctx context.Context, o httpapi.Observation) {
		p.meter.Observe(ctx, o)
		logRequest(ctx, o)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.meter.Handler())
	return p.serveBeside("METRICS_ADDR", p.metricsAddr, mux)
}

// startTLS replaces the listener by one with TLS, if it is enabled.
func (p *program) startTLS(ctx context.Context) error {
	if !p.tls.Enabled() {
		return nil
	}
	manager, err := p.tls.Manager(ctx)
	if err != nil {
		return fmt.Errorf("TLS_CACHE_DIR: %w", err)
	}
	p.listener = tls.NewListener(p.listener, p.tls.TLS(manager, p.log))
	return p.serveBeside("TLS_HTTP_ADDR", p.httpAddr, manager.HTTPHandler(redirectTo(p.url))) // also for HTTP-01
}
