package canvasback_test

import (
	"context"
	"fmt"
	"io"
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
	db := memory.New() // or sqlite.New(handle), postgres.New(pool, nil)
	clientKeys := keys.NewService(db.Keys(), nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go clientKeys.Run(ctx) // writes the times of last use

	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(httpapi.Options{
		Prefix:    "/api",
		Keys:      clientKeys,
		Symbols:   symbols.NewService(db.Symbols(), nil),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetch.New(nil)}}),
		AdminKeys: []string{"change me"},
	}))
	server := httptest.NewServer(mux) // yours: http.ListenAndServe(":8080", mux)
	defer server.Close()

	issued, _ := clientKeys.Create(ctx, keys.Fields{Name: new("My viewer")})
	request, _ := http.NewRequest("GET", server.URL+"/api/symbol/folders", nil)
	request.Header.Set("x-api-key", string(issued.Raw))
	response, _ := http.DefaultClient.Do(request)
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body))
	// Output: 200 OK []
}
