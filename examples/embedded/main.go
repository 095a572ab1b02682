// Command embedded is a program with routes, middleware and a database of its
// own that takes Canvasback in. It shows the API mounted under /canvas/, a
// route of the host behind the client key, and one that calls a service
// directly.
//
// Try it:
//
//	go run ./examples/embedded
//	curl -s -X POST localhost:8090/canvas/admin/api-keys -H 'x-admin-key: let me in'
//	curl -s localhost:8090/report -H 'x-api-key: cbk_...'
//	curl -s localhost:8090/
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
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

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
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	log := slog.Default()
	if err := run(ctx, log, "host.db", "127.0.0.1:8090"); err != nil {
		log.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger, file, addr string) error {
	// The host's database. Canvasback's tables live beside the host's own;
	// their names begin with canvasback_.
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"+
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)")
	if err != nil {
		return err
	}
	defer pool.Close()
	db := sqlite.New(pool)
	if err := db.Migrate(ctx); err != nil {
		return err
	}

	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{Prefix: "host"})
	if err != nil {
		return err
	}
	library := symbols.NewService(db.Symbols(), nil)
	fetcher, err := fetch.New(nil)
	if err != nil {
		return err
	}
	options := httpapi.Options{
		Prefix:  "/canvas",
		Keys:    clientKeys,
		Symbols: library,
		Exports: exports.NewService(db.Exports(), &exports.Options{
			Openers: []exports.Opener{fetcher},
		}),
		RegisterWith: httpapi.RegisterWithAdminKey,
		AdminKeys:    []string{"let me in"}, // yours comes from the environment
		Logger:       log,
	}

	mux := http.NewServeMux()
	mux.Handle("/canvas/", httpapi.Handler(options))
	mux.Handle("GET /report", httpapi.RequireClientKey(options)(http.HandlerFunc(report)))
	mux.Handle("GET /{$}", home(library))

	// Times of last use are written until the server has stopped.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { clientKeys.Run(background) })
	defer running.Wait()
	defer stopBackground()

	server := &http.Server{
		Addr:              addr,
		Handler:           logged(log, mux),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute,
		WriteTimeout:      6 * time.Minute, // but for downloads, which may take as long as they move
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       httpapi.ConnContext, // tells slow clients from those that stand still
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.ListenAndServe() }()
	log.Info("listening", "address", "http://"+addr)
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(graceful), ignoreClosed(<-stopped))
}

// report is a route of the host that asks for a client key of Canvasback.
func report(w http.ResponseWriter, r *http.Request) {
	key, _ := httpapi.KeyFromContext(r.Context())
	fmt.Fprintf(w, "A report for %s (key %d).\n", key.Name, key.ID)
}

// home calls a service without HTTP between.
func home(library *symbols.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := library.ListFolders(r.Context())
		if err != nil {
			http.Error(w, "the library is not available", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "This host's library has %d folders.\n", len(list.Folders))
	}
}

// logged is a middleware of the host.
func logged(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		next.ServeHTTP(w, r)
		log.InfoContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "requestId", w.Header().Get("X-Request-Id"), "took", time.Since(start))
	})
}

// ignoreClosed drops the error by which a server says that it was shut down.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
