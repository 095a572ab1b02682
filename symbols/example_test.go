package symbols_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
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
	var created []symbols.Symbol
	for _, name := range []string{"Gate valve", "Ball valve"} {
		symbol, err := service.CreateSymbol(ctx, folder.ID, symbols.NewSymbol{Name: name, Type: "image/svg+xml", Data: "<svg/>"})
		if err != nil {
			log.Fatal(err)
		}
		created = append(created, symbol)
	}

	// A conditional update succeeds only if nobody has changed the symbol.
	rename := symbols.SymbolFields{Name: new("Globe valve")}
	if _, err := service.UpdateSymbol(ctx, created[1].ID, rename, symbols.IfMatch(created[1].Version)); err != nil {
		log.Fatal(err)
	}
	_, err = service.UpdateSymbol(ctx, created[1].ID, rename, symbols.IfMatch(created[1].Version))
	fmt.Println(errors.Is(err, symbols.ErrChanged))

	for page, after := (symbols.Page{More: true}), int64(0); page.More; {
		page, err = service.ListSymbols(ctx, folder.ID, symbols.Range{After: after})
		if err != nil {
			log.Fatal(err)
		}
		for _, symbol := range page.Symbols {
			fmt.Println(symbol.ID, symbol.Name)
			after = symbol.ID
		}
	}
	// Output:
	// true
	// 1 Gate valve
	// 2 Globe valve
}
