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
	db := memory.New() // it forgets; sqlite.New and postgres.New do not
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	go clientKeys.Run(ctx) // lets checks be answered from memory, writes times of last use
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
	raw := string(issued.Raw) // shown this once
	request := httptest.NewRequest("GET", "/api/symbol/folders", nil)
	request.Header.Set("x-api-key", raw)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Body)
	// Output: 200 []
}
