package canvasback_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func Example() {
	db := memory.New() // data is lost at exit
	clientKeys := must(keys.NewService(db.Keys(), nil))
	go clientKeys.Run(context.Background()) // enables the cache and writes last-used times

	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{
		Prefix:    "/api",
		AdminKeys: []string{"change me"},
		Keys:      clientKeys,
		Symbols:   must(symbols.NewService(db.Symbols(), nil)),
		Exports: must(exports.NewService(db.Exports(), &exports.Options{
			Openers: []exports.Opener{must(fetch.New(nil))}, // files of public HTTP servers
			Resolve: resolve,
		})),
	}))

	request := httptest.NewRequest("POST", "/api/admin/api-keys", nil)
	request.Header.Set("x-admin-key", "change me")
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)
	// Output: 201
}

// resolve returns the export of a source that is not registered. render.example stands for your server.
func resolve(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
	return exports.Resolution{ExportedURL: "https://render.example/pdf?drawing=" + url.QueryEscape(r.Source)}, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
