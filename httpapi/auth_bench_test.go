package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// discardWriter is a ResponseWriter that discards the body.
type discardWriter struct{ header http.Header }

func (s *discardWriter) Header() http.Header         { return s.header }
func (s *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (s *discardWriter) WriteHeader(status int) {
	if status >= 400 {
		panic(http.StatusText(status))
	}
}

// BenchmarkAuth compares a route that requires a client key with the same route
// without protection. It alternates, so that other load affects both alike.
func BenchmarkAuth(b *testing.B) {
	db := memory.New()
	options := httpapi.Options{
		Keys:                      newKeyService(b, db.Keys(), nil),
		Symbols:                   must(symbols.NewService(db.Symbols(), nil)),
		DangerouslySkipClientKeys: true,
	}
	open := httpapi.Handler(&options)
	options.DangerouslySkipClientKeys = false
	protected := httpapi.Handler(&options)

	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { options.Keys.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	issued, err := options.Keys.Create(b.Context(), keys.Fields{})
	is.New(b).NoErr(err)
	for options.Keys.Stats().LeaseAge < 0 {
		time.Sleep(time.Millisecond)
	}
	request := httptest.NewRequest("GET", "/symbol/folders", nil)
	request.Header.Set("x-api-key", string(issued.Raw))
	serve := func(handler http.Handler) time.Duration {
		start := time.Now()
		for range 100 {
			handler.ServeHTTP(&discardWriter{make(http.Header)}, request)
		}
		return time.Since(start)
	}
	var without, with time.Duration
	n := 0
	for b.Loop() {
		without += serve(open)
		with += serve(protected)
		n += 100
	}
	b.ReportMetric(float64(with-without)/float64(n), "ns-more/request")
	b.ReportMetric(float64(with)/float64(without), "x-open")
}
