package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// A program that serves the symbol library alone, to everyone.
func ExampleHandler() {
	handler := httpapi.Handler(httpapi.Options{
		Prefix:                    "/library",
		Symbols:                   symbols.NewService(memory.New().Symbols(), nil),
		DangerouslySkipClientKeys: true,
	})
	mux := http.NewServeMux()
	mux.Handle("/library/", handler)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/library/symbol/folders", nil))
	fmt.Println(answer.Code, answer.Body)
	// Output: 200 []
}

// A pattern without a slash at its end is the path of one document, so nothing
// below it reaches the handler.
func ExampleHandler_incorrect() {
	handler := httpapi.Handler(httpapi.Options{
		Prefix:                    "/library",
		Symbols:                   symbols.NewService(memory.New().Symbols(), nil),
		DangerouslySkipClientKeys: true,
	})
	mux := http.NewServeMux()
	mux.Handle("/library", handler) // incorrect: should be "/library/"

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/library/symbol/folders", nil))
	fmt.Println(answer.Code)
	// Output: 404
}
