package canvasback_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func Example() {
	ctx := context.Background()
	db := memory.New() // data is lost at exit; see sqlite.New and postgres.New
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	go clientKeys.Run(ctx) // enables the cache and writes last-used times
	fetcher, err := fetch.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(httpapi.Options{
		Prefix:    "/api",
		Keys:      clientKeys,
		Symbols:   symbols.NewService(db.Symbols(), nil),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetcher}}),
		AdminKeys: []string{"change me"},
	}))

	issued, err := clientKeys.Create(ctx, keys.Fields{Name: new("My viewer")})
	if err != nil {
		log.Fatal(err)
	}
	raw := string(issued.Raw) // not stored: it cannot be shown again
	request := httptest.NewRequest("GET", "/api/symbol/folders", nil)
	request.Header.Set("x-api-key", raw)
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code, response.Body)
	// Output: 200 []
}
