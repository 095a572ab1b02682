package httpapi_test

import (
	"context"
	"expvar"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// The symbol library alone, without protection.
func ExampleHandler() {
	library, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := httpapi.Handler(&httpapi.Options{
		Prefix:                    "/library",
		Symbols:                   library,
		DangerouslySkipClientKeys: true,
	})
	mux := http.NewServeMux()
	mux.Handle("/library/", handler)

	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest("GET", "/library/symbol/folders", nil))
	fmt.Println(response.Code, response.Body)
	// Output: 200 []
}

// A pattern without a trailing slash matches one path only.
func ExampleHandler_incorrect() {
	library, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := httpapi.Handler(&httpapi.Options{
		Prefix:                    "/library",
		Symbols:                   library,
		DangerouslySkipClientKeys: true,
	})
	mux := http.NewServeMux()
	mux.Handle("/library", handler) // incorrect: should be "/library/"

	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest("GET", "/library/symbol/folders", nil))
	fmt.Println(response.Code)
	// Output: 404
}

// Metrics by route, method and status. With Prometheus the last line is
//
//	requests.WithLabelValues(o.Route, o.Method, strconv.Itoa(o.Status)).Observe(o.Duration.Seconds())
func ExampleOptions_metrics() {
	requests := expvar.NewMap("requests")
	library, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := httpapi.Handler(&httpapi.Options{
		Symbols:                   library,
		DangerouslySkipClientKeys: true,
		Observe: func(_ context.Context, o httpapi.Observation) {
			requests.Add(fmt.Sprint(o.Method, " ", o.Route, " ", o.Status), 1)
		},
	})
	for _, path := range []string{"/symbol/folders", "/symbol/folders/1", "/symbol/folders/2", "/wp-login.php"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	fmt.Println(requests)
	// Output: {"GET  404": 1, "GET /symbol/folders 200": 1, "GET /symbol/folders/{id} 404": 2}
}

// A span for each request. With OpenTelemetry:
//
//	_, span := tracer.Start(ctx, o.Method+" "+o.Route, trace.WithTimestamp(o.Start))
//	span.SetAttributes(attribute.Int("http.response.status_code", o.Status))
//	span.End(trace.WithTimestamp(o.Start.Add(o.Duration)))
//
// where ctx is the request context with the span of the application's middleware.
func ExampleOptions_spans() {
	library, err := symbols.NewService(memory.New().Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := httpapi.Handler(&httpapi.Options{
		Symbols:                   library,
		DangerouslySkipClientKeys: true,
		Observe: func(_ context.Context, o httpapi.Observation) {
			fmt.Println(o.Method, o.Route, o.Status, o.Bytes, o.RequestID, o.Duration > 0)
		},
	})
	request := httptest.NewRequest("GET", "/symbol/folders", nil)
	request.Header.Set("X-Request-Id", "7")
	handler.ServeHTTP(httptest.NewRecorder(), request)
	// Output: GET /symbol/folders 200 2 7 true
}
