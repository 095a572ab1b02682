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
	clientKeys := must(keys.NewService(db.Keys(), nil))
	go clientKeys.Run(ctx) // enables the cache and writes last-used times

	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{
		Prefix:    "/api",
		Keys:      clientKeys,
		Symbols:   must(symbols.NewService(db.Symbols(), nil)),
		Exports:   must(exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{must(fetch.New(nil))}})),
		AdminKeys: []string{"change me"},
	}))

	request := httptest.NewRequest("POST", "/api/admin/api-keys", nil)
	request.Header.Set("x-admin-key", "change me")
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)
	// Output: 201
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
