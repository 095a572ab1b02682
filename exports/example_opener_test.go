package exports_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/url"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// blobs opens files that a database stores, at URLs such as blob://database/17.
type blobs struct {
	rows map[string][]byte // in an application, a *sql.DB
}

func (b blobs) Serves(u *url.URL) bool { return u.Scheme == "blob" && u.Host == "database" }

func (b blobs) Check(u *url.URL) error {
	if strings.Trim(u.Path, "0123456789") != "/" || u.Path == "/" || u.RawQuery != "" {
		return &exports.ForbiddenError{Reason: "the path is not the number of a row"}
	}
	return nil
}

func (b blobs) Open(_ context.Context, u *url.URL) (*exports.File, error) {
	if err := b.Check(u); err != nil {
		return nil, err
	}
	content, ok := b.rows[u.Path[1:]] // SELECT content FROM blobs WHERE id = $1
	if !ok {
		return nil, exports.ErrGone
	}
	return &exports.File{Body: io.NopCloser(bytes.NewReader(content)), Size: int64(len(content)), Type: "application/pdf"}, nil
}

// An application opens files that are neither on disk nor at a public URL with an
// Opener of its own. Package fetch adds credentials to HTTP requests, and package
// s3 opens the objects of object stores.
func ExampleOpener() {
	ctx := context.Background()
	opener := blobs{rows: map[string][]byte{"17": []byte("a plan")}}
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	if err != nil {
		log.Fatal(err)
	}
	_, _, err = service.Register(ctx, exports.Registration{SourceURL: "drawing-1", ExportedURL: "blob://database/17; DROP TABLE blobs"})
	fmt.Println(err)
	export, _, err := service.Register(ctx, exports.Registration{
		SourceURL: "drawing-1", ExportedURL: "blob://database/17", FileName: new("plan.pdf"),
	})
	if err != nil {
		log.Fatal(err)
	}
	download, err := service.Open(ctx, export)
	if err != nil {
		log.Fatal(err)
	}
	defer download.Close()
	content, err := io.ReadAll(download.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(download.Name, string(content))
	// Output:
	// exportedUrl is not an allowed URL: the path is not the number of a row
	// plan.pdf a plan
}
