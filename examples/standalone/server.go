package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// grace is for downloads that are under way at the end.
const grace = 30 * time.Second

// run serves until ctx ends. The banner goes to stdout, the log to stderr.
func run(ctx context.Context, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	c, err := readConfig(lookup)
	if err != nil {
		return err
	}
	if !c.adminKeyGiven {
		c.adminKeys = []string{"admin_" + rand.Text()}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: c.logLevel}))

	listener, err := net.Listen("tcp", c.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program; choose another address with ADDR=127.0.0.1:8081", c.addr)
	}
	if err != nil {
		return err
	}
	defer listener.Close()

	storage, closeStorage, err := openStorage(ctx, c.databaseURL)
	if err != nil {
		return err
	}
	defer closeStorage()

	own := ownAddress(listener.Addr())
	openers, mounts, err := openFiles(c, own)
	if err != nil {
		return err
	}
	s := services{
		keys:    keys.NewService(storage.Keys(), &keys.Options{Logger: log}),
		symbols: symbols.NewService(storage.Symbols(), nil),
		exports: exports.NewService(storage.Exports(), &exports.Options{
			Openers: append(openers, fetch.New(&fetch.Options{AllowedHosts: c.allowedHosts, Logger: log})),
		}),
	}

	demo, err := s.seed(ctx, c.demo, own)
	if err != nil {
		return fmt.Errorf("put in samples: %w", err)
	}
	if err := writeBanner(stdout, c, own, demo); err != nil {
		return err
	}

	options := httpapi.Options{
		Keys:                      s.keys,
		Symbols:                   s.symbols,
		Exports:                   s.exports,
		AdminKeys:                 c.adminKeys,
		RegisterWith:              c.registerWith,
		DangerouslySkipClientKeys: !c.protect,
		Prefix:                    c.basePath,
		AllowedOrigins:            c.corsOrigins,
		Logger:                    log,
	}
	pages := http.NewServeMux()
	for prefix, fsys := range mounts {
		pages.Handle("GET "+prefix, http.StripPrefix(prefix, fileServer(fsys)))
	}
	web, err := console.New(console.Options{API: "." + c.basePath + "/"})
	if err != nil {
		return err
	}
	pages.Handle("GET /{$}", web)
	for _, file := range console.Files() { // each by its name: the API may be at the root too
		pages.Handle("GET /"+file, web)
	}
	pages.Handle("GET /healthz", httpapi.Alive())
	pages.Handle("GET /readyz", httpapi.Ready(options))
	return serve(ctx, listener, beside(httpapi.Handler(options), c.basePath, pages), s.keys, log)
}

// beside serves pages next to the API, which has whatever else there is: its
// errors are JSON, and it does not redirect as a ServeMux does.
func beside(api http.Handler, basePath string, pages *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isAPI := basePath != "" && strings.HasPrefix(r.URL.Path, basePath+"/")
		_, pattern := pages.Handler(r)
		if pattern == "" || isAPI || redirects(r.URL.Path, pattern) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// redirects reports whether a ServeMux would answer a path with a redirect to
// what the pattern matches: because it is not clean, or lacks the slash at the
// end.
func redirects(p, pattern string) bool {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return p != clean || strings.HasSuffix(pattern, p+"/")
}

// services are those that the handler and the samples share.
type services struct {
	keys    *keys.Service
	symbols *symbols.Service
	exports *exports.Service
}

// serve runs the server and what goes with it until ctx ends, then lets
// downloads finish and writes the times of last use.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, keyService *keys.Service, log *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute, // for bodies of 50 MiB on a slow line
		IdleTimeout:       2 * time.Minute,
		WriteTimeout:      6 * time.Minute, // but for downloads, which may take as long as they move
		MaxHeaderBytes:    64 << 10,
		ConnContext:       httpapi.ConnContext, // tells slow clients from those that stand still
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := keyService.Run(background); err != nil {
			log.Error("times of last use could not be written at the end", "error", err)
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
	log.Info("stopping; downloads under way may finish", "grace", grace)
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(graceful); err != nil {
		log.Warn("some downloads did not finish", "error", err)
		server.Close()
	}
	return nil
}

// openFiles returns the openers of files on this machine, and which of them
// are served under which path, so that their addresses work in a browser too.
func openFiles(c config, own string) (openers []exports.Opener, mounts map[string]fs.FS, err error) {
	mounts = map[string]fs.FS{samplesPath: sampleExports()}
	samples, err := files.New(own+samplesPath, mounts[samplesPath])
	if err != nil {
		return nil, nil, err
	}
	openers = append(openers, samples)
	if c.exportDir == "" {
		return openers, mounts, nil
	}

	root, err := os.OpenRoot(c.exportDir) // no link in it leads out of it
	if err != nil {
		return nil, nil, fmt.Errorf("EXPORT_DIR: %w", err)
	}
	address := c.exportDirURL
	if address == "" {
		address = own + filesPath
		mounts[filesPath] = root.FS()
	}
	dir, err := files.New(address, root.FS())
	if err != nil {
		return nil, nil, fmt.Errorf("EXPORT_DIR_URL: %w", err)
	}
	return append(openers, dir), mounts, nil
}

const (
	filesPath   = "/files/"
	samplesPath = "/samples/"
)

// fileServer serves files to everyone, but no listings. A document among them
// may not act as a page of this server.
func fileServer(fsys fs.FS) http.Handler {
	server := http.FileServerFS(fsys)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Clean(r.URL.Path)
		// A hidden file is hidden for a reason, and opening a pipe may block.
		hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
		if info, err := fs.Stat(fsys, name); err != nil || hidden || !info.Mode().IsRegular() {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		server.ServeHTTP(w, r)
	})
}
