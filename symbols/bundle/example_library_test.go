package bundle_test

import (
	"context"
	"fmt"
	"log"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// A draw.io library is imported into a folder.
func ExampleRead_drawio() {
	ctx := context.Background()
	service, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	folder, err := service.CreateFolder(ctx, "Valves")
	if err != nil {
		log.Fatal(err)
	}
	library := `<mxlibrary>[{"data": "data:image/svg+xml;base64,PHN2Zy8+", "w": 40, "h": 20, "title": "Gate valve", "tags": "brass DN50"}]</mxlibrary>`
	contents, err := bundle.Read(ctx, []byte(library), &bundle.Options{Skip: true, Folder: folder.Name})
	if err != nil {
		log.Fatal(err)
	}
	created, err := service.CreateSymbols(ctx, folder.ID, contents.Symbols())
	if err != nil {
		log.Fatal(err)
	}
	for _, symbol := range created {
		fmt.Println(symbol.Name, symbol.Type, symbol.Tags.List(), symbol.Meta)
	}
	// Output: Gate valve image/svg+xml [brass DN50] {"height":20,"width":40}
}
