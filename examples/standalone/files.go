package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/exports/s3"
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

// openObjectStore returns the Opener of the object store, if one is configured. The AWS
// SDK finds the credentials, and renews them if they are those of a role. It warns if a
// bucket cannot be used.
func openObjectStore(ctx context.Context, options s3.Options, log *slog.Logger) ([]exports.Opener, error) {
	if len(options.Buckets) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	sdk, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithDefaultRegion(cmp.Or(options.Region, "us-east-1")))
	if err == nil {
		_, err = sdk.Credentials.Retrieve(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS: requires credentials, such as AWS_ACCESS_KEY_ID: %w", err)
	}
	options.Credentials, options.Region = sdk.Credentials, cmp.Or(options.Region, sdk.Region)
	opener, err := s3.New(&options)
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS: %w", err)
	}
	if err := opener.Probe(ctx); err != nil {
		log.Warn("object store cannot be used", "error", err)
	}
	return []exports.Opener{opener}, nil
}
