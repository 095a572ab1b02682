package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"testing/fstest"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/storage/memory"
)

// A batch delivers the files that it can open and lists the others.
func Example() {
	ctx := context.Background()
	opener, err := files.New("https://files.example/", fstest.MapFS{
		"plan.pdf":    {Data: []byte("a plan")},
		"section.pdf": {Data: []byte("a section")},
	})
	if err != nil {
		log.Fatal(err)
	}
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	if err != nil {
		log.Fatal(err)
	}
	for source, exported := range map[string]string{
		"drawing-1": "https://files.example/plan.pdf",
		"drawing-2": "https://files.example/section.pdf",
	} {
		if _, _, err := service.Register(ctx, exports.Registration{SourceURL: source, ExportedURL: exported}); err != nil {
			log.Fatal(err)
		}
	}

	items, err := service.FindBatch(ctx, exports.BatchOf("drawing-1", "drawing-2", "drawing-3"))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := service.OpenBatch(ctx, items)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Close()
	var archive bytes.Buffer
	if err := batch.WriteZip(&archive, nil); err != nil {
		log.Fatal(err) // the archive is incomplete
	}
	for _, skipped := range batch.Skipped() {
		fmt.Println("skipped:", skipped.SourceURL, skipped.Reason)
	}
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range r.File {
		fmt.Println(f.Name)
	}
	// Output:
	// skipped: drawing-3 not registered
	// plan.pdf
	// section.pdf
	// manifest.json
}

// An invalid field is reported by its name on the wire.
func ExampleService_Register() {
	service, err := exports.NewService(memory.New().Exports(), nil)
	if err != nil {
		log.Fatal(err)
	}
	_, _, err = service.Register(context.Background(), exports.Registration{SourceURL: "drawing-1", ExportedURL: "plan.pdf"})
	fmt.Println(errors.Is(err, exports.ErrInvalid), err)
	// Output: true exportedUrl must be an absolute URL, such as https://...
}

// A download is read from its Body, and closed.
func ExampleService_Open() {
	ctx := context.Background()
	opener, err := files.New("https://files.example/", fstest.MapFS{"plan.pdf": {Data: []byte("a plan")}})
	if err != nil {
		log.Fatal(err)
	}
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	if err != nil {
		log.Fatal(err)
	}
	export, _, err := service.Register(ctx, exports.Registration{
		SourceURL: "drawing-1", ExportedURL: "https://files.example/plan.pdf", FileName: new("Plan of the site.pdf"),
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
	fmt.Println(download.Name, download.Type, string(content))
	// Output: Plan of the site.pdf application/pdf a plan
}
