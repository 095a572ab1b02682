package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"os"

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
	dir, dirURLs := fs.FS(embed.FS{}), p.exportDirURLs // without EXPORT_DIR no files, and no requests for them
	if p.exportDir != "" {
		root, err := os.OpenRoot(p.exportDir) // symbolic links cannot leave it
		if err != nil {
			return fmt.Errorf("EXPORT_DIR: %w", err)
		}
		p.closers = append(p.closers, func() { root.Close() })
		dir, dirURLs = root.FS(), append(dirURLs, p.url+formerPath)
	}
	openers := append(p.exports.Openers, embedded)
	for _, dirURL := range dirURLs {
		opener, err := files.New(dirURL, dir)
		if err != nil {
			return fmt.Errorf("EXPORT_DIR_URL: %w", err)
		}
		openers = append(openers, opener)
	}
	previous, err := files.NewFunc(func(u *url.URL) bool {
		return p.exportDir != "" && fetcher.Serves(u) && fetcher.Check(u) != nil
	}, formerPath, dir)
	p.exports.Openers = append(append(openers, stores...), previous, fetcher)
	return err
}

// formerPath is where earlier versions served EXPORT_DIR. They registered the URL of their
// own address then, which the fetcher rejects, unless it is a PUBLIC_URL.
const formerPath = "/files/"
