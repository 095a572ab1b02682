package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/url"
	"os"
	"path/filepath"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/storage/memory"
)

// Each customer has a directory, and the source "2024/plan" stands for the file
// 2024/plan.pdf in it. No file is registered.
func Example_resolve() {
	dir, err := os.MkdirTemp("", "exports")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(filepath.Join(dir, "acme", "2024"), 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "acme", "2024", "plan.pdf"), []byte("%PDF-2.0"), 0o600); err != nil {
		log.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	opener, err := files.New("http://files.internal/", root.FS())
	if err != nil {
		log.Fatal(err)
	}
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{
		Openers: []exports.Opener{opener},
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			name := url.PathEscape(r.Tenant) + "/" + r.Source + ".pdf"
			if !fs.ValidPath(name) { // the client chose it: it may have ".."
				return exports.Resolution{}, exports.ErrNotFound
			}
			if _, err := root.Stat(name); errors.Is(err, fs.ErrNotExist) {
				return exports.Resolution{}, exports.ErrNotFound
			} else if err != nil {
				return exports.Resolution{}, err
			}
			u := url.URL{Scheme: "http", Host: "files.internal", Path: "/" + name}
			return exports.Resolution{ExportedURL: u.String()}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	for _, tenant := range []string{"acme", "globex"} {
		customer := service.Tenant(tenant)
		items, err := customer.FindBatch(ctx, exports.BatchOf("2024/plan", "../acme/2024/plan"))
		if err != nil {
			log.Fatal(err)
		}
		customer.Resolve(ctx, items)
		for _, item := range items {
			if item.Err != nil {
				fmt.Println(tenant, item.SourceURL, item.Err)
				continue
			}
			fmt.Println(tenant, item.SourceURL, item.Export.ExportedURL)
		}
	}
	// Output:
	// acme 2024/plan http://files.internal/acme/2024/plan.pdf
	// acme ../acme/2024/plan exports: not registered
	// globex 2024/plan exports: not registered
	// globex ../acme/2024/plan exports: not registered
}
