package exports_test

import (
	"context"
	"fmt"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// An application that knows its files, or makes them on demand, registers nothing.
func ExampleOptions_resolve() {
	ctx := context.Background()
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{
		Openers: []exports.Opener{newFakeUpstream()}, // such as those of packages fetch and files
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			path, _, _ := strings.Cut(r.Source, "?") // the client chose it: do not request it
			drawing, ok := strings.CutPrefix(path, "drawing-")
			switch {
			case !ok:
				return exports.Resolution{}, exports.ErrNotFound
			case drawing == "2": // a renderer is at work
				return exports.Resolution{}, &exports.NotReadyError{}
			}
			return exports.Resolution{ExportedURL: "https://files.example/" + drawing + ".pdf"}, nil
		},
		SourceKey: func(source string) string { // so that presigned sources match
			path, _, _ := strings.Cut(source, "?")
			return path
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	items, err := service.FindBatch(ctx, exports.BatchOf("drawing-1?signature=x", "drawing-2", "unknown"))
	if err != nil {
		fmt.Println(err)
		return
	}
	service.Resolve(ctx, items)
	for _, item := range items {
		if item.Err != nil {
			fmt.Println(item.SourceURL, item.Err)
			continue
		}
		fmt.Println(item.SourceURL, item.Export.ExportedURL)
	}
	// Output:
	// drawing-1?signature=x https://files.example/1.pdf
	// drawing-2 exports: the file is not ready
	// unknown exports: not registered
}
