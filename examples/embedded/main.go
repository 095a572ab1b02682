// Command embedded is an application with its own routes, middleware and database
// that imports Canvasback. It mounts the API under /canvas/, protects one of its
// own routes with client keys, and calls a service directly in another.
//
// Try it:
//
//	go run ./examples/embedded
//	curl -s -X POST localhost:8090/canvas/admin/api-keys -H 'x-admin-key: let me in'
//	curl -s localhost:8090/report -H 'x-api-key: app_...'
//	curl -s localhost:8090/
//	curl -s localhost:8090/metrics
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"

	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restore the default: a second signal ends the process
	log := slog.Default()
	if err := run(ctx, log, "embedded.db", "127.0.0.1:8090"); err != nil {
		log.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger, file, addr string) error {
	// The application's database. The names of Canvasback's tables begin with
	// canvasback_, so that they do not collide with its own.
	if created, err := os.OpenFile(file, os.O_CREATE, 0o600); err == nil { // it has the URLs of files
		created.Close()
	}
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"+
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)")
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(runtime.NumCPU() + 1)
	pool.SetMaxIdleConns(runtime.NumCPU() + 1)
	db, err := sqlite.New(pool)
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx); err != nil {
		return err
	}

	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{Prefix: "app"})
	if err != nil {
		return err
	}
	symbolService, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		return err
	}
	fetcher, err := fetch.New(nil)
	if err != nil {
		return err
	}
	exportService, err := exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetcher}})
	if err != nil {
		return err
	}
	meter := metrics.New(clientKeys, fetcher)
	meter.AddPool(pool.Stats)
	audit := httpapi.LogRequests(log.With("component", "canvasback"))
	api, err := httpapi.New(&httpapi.Options{
		Prefix:  "/canvas",
		Keys:    clientKeys,
		Symbols: symbolService,
		Exports: exportService,

		RegisterWith: httpapi.RegisterWithAdminKey,
		AdminKeys:    []string{"let me in"}, // use a secret from the environment
		Observe: func(ctx context.Context, o httpapi.Observation) {
			meter.Observe(ctx, o)
			audit(ctx, o)
		},
		Logger: log,
	})
	if err != nil {
		return err
	}
	meter.AddAPI(api)
	mux := http.NewServeMux()
	mux.Handle("/canvas/", api)
	mux.Handle("GET /report", api.RequireClientKey(http.HandlerFunc(report)))
	mux.Handle("GET /{$}", home(symbolService))
	mux.Handle("GET /metrics", meter.Handler()) // put it on an address that is not public

	server := &http.Server{Addr: addr, Handler: logRequests(log, mux)}
	httpapi.ConfigureServer(server)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		log.Info("listening", "url", "http://"+addr)
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() error { return clientKeys.Run(background) })
	running.Go(func() error {
		<-ctx.Done()
		defer stop() // after the server, so that Run writes all last-used times
		shutdown, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		return errors.Join(server.Shutdown(shutdown), exportService.Flush(shutdown))
	})
	return running.Wait()
}

// report handles a route of the application that requires a client key.
func report(w http.ResponseWriter, r *http.Request) {
	key, _ := httpapi.KeyFromContext(r.Context())
	fmt.Fprintf(w, "A report for %s (key %d).\n", key.Name, key.ID)
}

// home calls a service without HTTP.
func home(service *symbols.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := service.ListFolders(r.Context(), symbols.Range{})
		if err != nil {
			http.Error(w, "symbols are unavailable", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "The symbol library has %d folders.\n", len(list.Folders))
	}
}

// logRequests is middleware of the application.
func logRequests(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		next.ServeHTTP(w, r)
		log.InfoContext(r.Context(), "request", "method", r.Method, "pattern", r.Pattern, "requestId", w.Header().Get("X-Request-Id"), "duration", time.Since(start))
	})
}
