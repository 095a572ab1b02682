package bundle_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

func Example() {
	ctx := context.Background()
	service, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	folder, err := service.CreateFolder(ctx, "Valves")
	if err != nil {
		log.Fatal(err)
	}
	const data = `{"name":"Gate valve","type":"image/svg+xml","content":"PHN2Zy8+","width":96,"height":96}`
	if _, err := service.CreateSymbol(ctx, folder.ID, symbols.NewSymbol{Name: "Gate valve", Type: "image/svg+xml", Data: data}); err != nil {
		log.Fatal(err)
	}

	var archive bytes.Buffer // or a file
	err = bundle.Write(&archive, folder.Name, func(after int64) (symbols.Page, error) {
		return service.ListSymbols(ctx, folder.ID, symbols.Range{After: after})
	})
	if err != nil {
		log.Fatal(err)
	}

	contents, err := bundle.Read(ctx, archive.Bytes(), nil)
	if err != nil {
		log.Fatal(err)
	}
	another, err := service.CreateFolder(ctx, "Valves, a copy")
	if err != nil {
		log.Fatal(err)
	}
	created, err := service.CreateSymbols(ctx, another.ID, contents.Symbols())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(contents.Files[0].Name)
	fmt.Println(created[0].Name, created[0].Data == data)
	// Output:
	// Gate valve.svg
	// Gate valve true
}

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
