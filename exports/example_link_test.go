package exports_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing/fstest"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/storage/memory"
)

// rangeWriter writes a range of a link to standard output.
type rangeWriter struct {
	*os.File
	offset, length int64
}

func (w rangeWriter) Select(l *exports.Link) ([]exports.Section, error) {
	fmt.Println(l.FileName, "has", l.Size, "bytes")
	return []exports.Section{{Offset: w.offset, Length: w.length}}, nil
}

func (w rangeWriter) Begin(*exports.Link, int) error { return nil }
func (w rangeWriter) Flush() error                   { return nil }

// A link is found by its token, on any process, and delivers what a LinkWriter selects.
func ExampleLink_Serve() {
	ctx := context.Background()
	opener, err := files.New("https://files.example/", fstest.MapFS{
		"plan.txt": {Data: []byte("first floor, second floor"), ModTime: time.Unix(1e9, 0)},
	})
	if err != nil {
		log.Fatal(err)
	}
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
	if err != nil {
		log.Fatal(err)
	}
	export, _, err := service.Register(ctx, exports.Registration{SourceURL: "drawing-1", ExportedURL: "https://files.example/plan.txt"})
	if err != nil {
		log.Fatal(err)
	}
	link, err := service.CreateLink(ctx, exports.LinkRequest{Items: []exports.BatchItem{{SourceURL: export.SourceURL, Export: &export}}, Single: true})
	if err != nil {
		log.Fatal(err)
	}
	found, err := service.FindLink(ctx, link.Token)
	if err != nil {
		log.Fatal(err)
	}
	link, err = found.Load(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := link.Serve(ctx, rangeWriter{os.Stdout, 13, 12}); err != nil {
		log.Fatal(err)
	}
	if err := service.Flush(ctx); err != nil { // at shutdown
		log.Fatal(err)
	}
	// Output:
	// plan.txt has 25 bytes
	// second floor
}
