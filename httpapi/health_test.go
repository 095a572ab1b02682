package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// hangingStore is a store whose reads never return.
type hangingStore struct{ symbols.Store }

func (hangingStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestReady(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	get := func(handler http.Handler) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/readyz", nil))
		return recorder
	}
	h := newHarness(t)
	is.Equal(get(httpapi.Alive()).Code, 200)
	is.Equal(get(newAPI(t, h.options).Ready()).Code, 200)
	is.Equal(get(newAPI(t, httpapi.Options{}).Ready()).Code, 200) // no store to check
	h.options.Symbols = symbols.NewService(hangingStore{memory.New().Symbols()}, nil)
	start := time.Now()
	response := get(newAPI(t, h.options).Ready())
	is.Equal(response.Code, 503)
	is.Equal(response.Body.String(), "storage unavailable\n")
	is.True(time.Since(start) < 10*time.Second)
	is.True(strings.Contains(h.log.String(), "readiness check failed"))
}
