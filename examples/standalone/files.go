package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
)

//go:embed samples
var samples embed.FS

// The URLs of the files of samples, and of those among them that are exports.
const (
	embeddedURL = "http://standalone.internal/"
	samplesURL  = embeddedURL + "samples/exports/"
)

// openFiles creates the openers of exported files: of the samples and of EXPORT_DIR,
// which nothing serves at their URLs, of the object store, and of other servers.
func (p *program) openFiles(ctx context.Context) error {
	p.fetch.Logger, p.fetch.RequestID = p.log, httpapi.RequestIDFromContext
	fetcher, err := fetch.New(&p.fetch)
	if err != nil {
		return err
	}
	p.s3.Fetch = fetch.Options{Logger: p.log, RequestID: httpapi.RequestIDFromContext}
	stores, err := openObjectStore(ctx, p.s3, p.log)
	if err != nil {
		return err
	}
	embedded, err := files.New(embeddedURL, samples)
	if err != nil {
		return err
	}
	dir := fs.FS(embed.FS{}) // without EXPORT_DIR no files, and no requests for them
	if p.exportDir != "" {
		root, err := os.OpenRoot(p.exportDir) // symbolic links cannot leave it
		if err != nil {
			return fmt.Errorf("EXPORT_DIR: %w", err)
		}
		p.closers = append(p.closers, func() { root.Close() })
		dir = root.FS()
	}
	openers := []exports.Opener{embedded}
	for _, dirURL := range p.exportDirURLs {
		opener, err := files.New(dirURL, dir)
		if err != nil {
			return fmt.Errorf("EXPORT_DIR_URL: %w", err)
		}
		openers = append(openers, opener)
	}
	p.exports.Openers = append(append(openers, stores...), fetcher)
	return nil
}
