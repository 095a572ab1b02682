package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
)

const (
	filesPath   = "/files/"
	samplesPath = "/samples/"
)

// openFiles returns the openers of local files, and the file systems to serve by
// URL path, so that a browser can open the URLs of these files too. The root is that
// of EXPORT_DIR or nil.
func openFiles(c config, root *os.Root, baseURL, samplesURL string) (openers []exports.Opener, staticDirs map[string]fs.FS, err error) {
	staticDirs = map[string]fs.FS{samplesPath: sampleExports()}
	samples, err := files.New(samplesURL, staticDirs[samplesPath])
	if err != nil {
		return nil, nil, err
	}
	openers = append(openers, samples)
	if root == nil {
		return openers, staticDirs, nil
	}
	visible := visibleFS{root.FS()}
	dirURL := c.exportDirURL
	if dirURL == "" {
		dirURL = baseURL + filesPath
		staticDirs[filesPath] = visible
	}
	dir, err := files.New(dirURL, visible)
	if err != nil {
		return nil, nil, fmt.Errorf("EXPORT_DIR_URL: %w", err)
	}
	return append(openers, dir), staticDirs, nil
}

// newPages returns the pages next to the API: files, the console and health checks.
func newPages(api *httpapi.API, basePath string, staticDirs map[string]fs.FS) (*http.ServeMux, error) {
	web, err := console.New(&console.Options{API: "." + basePath + "/"})
	if err != nil {
		return nil, err
	}
	pages := http.NewServeMux()
	for prefix, fsys := range staticDirs {
		pages.Handle("GET "+prefix, http.StripPrefix(prefix, fileServer(fsys)))
	}
	pages.Handle("GET /{$}", web)
	for _, file := range console.Files() { // one route per file, because the API may be mounted at the root
		pages.Handle("GET /"+file, web)
	}
	pages.Handle("GET /healthz", httpapi.Alive())
	pages.Handle("GET /readyz", api.Ready())
	return pages, nil
}

// visibleFS is a file system without the files and directories whose names begin
// with a dot.
type visibleFS struct{ fs.FS }

func (v visibleFS) Open(name string) (fs.File, error) {
	if isHidden(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return v.FS.Open(name)
}

// Stat implements [fs.StatFS]: opening a named pipe would block.
func (v visibleFS) Stat(name string) (fs.FileInfo, error) {
	if isHidden(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(v.FS, name)
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// withPages serves pages next to the API. All other paths belong to the API,
// whose errors are JSON, and which does not redirect as a ServeMux does.
func withPages(api http.Handler, basePath string, pages *http.ServeMux) http.Handler {
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

// redirects reports whether a ServeMux redirects the path to a match of pattern,
// because the path is not clean or lacks the trailing slash.
func redirects(p, pattern string) bool {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return p != clean || strings.HasSuffix(pattern, p+"/")
}

// fileServer serves the regular files of fsys without authentication, and no
// directory listings. The Content-Security-Policy keeps documents from acting as
// pages of this server.
func fileServer(fsys fs.FS) http.Handler {
	server := http.FileServerFS(fsys)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Clean(r.URL.Path)
		// Opening a file that is not regular, such as a named pipe, may block.
		if info, err := fs.Stat(fsys, name); err != nil || !info.Mode().IsRegular() {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		server.ServeHTTP(w, r)
	})
}
