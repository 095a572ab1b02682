package console_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
)

// The API and the console on one mux.
func ExampleNew() {
	page, err := console.New(&console.Options{API: "../api/"})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{Prefix: "/api"}))
	mux.Handle("/console/", http.StripPrefix("/console", page))

	for _, path := range []string{"/console/", "/console/main.js", "/api/openapi.json"} {
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, httptest.NewRequest("GET", path, nil))
		fmt.Println(response.Code, response.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/html; charset=utf-8
	// 200 text/javascript; charset=utf-8
	// 200 application/json
}
