package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func TestReady(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	get := func(handler http.Handler) *httptest.ResponseRecorder { return serveOnce(handler, "GET", "/readyz", "") }
	h := newHarness(t)
	is.Equal(get(httpapi.Alive()).Code, 200)
	is.Equal(get(must(httpapi.New(&h.options))(t).Ready()).Code, 200)
	is.Equal(get(must(httpapi.New(&httpapi.Options{}))(t).Ready()).Code, 200) // no store to check
	detail := func() string { return "fence: complete" }
	is.Equal(get(must(httpapi.New(&h.options))(t).Ready(detail)).Body.String(), "ok\nfence: complete\n")
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		down := new(atomic.Bool)
		down.Store(true)
		service := must(symbols.NewService(slowStore{memory.New().Symbols(), down}, nil))(t)
		start := time.Now()
		response := get(must(httpapi.New(&httpapi.Options{Symbols: service, Logger: h.options.Logger}))(t).Ready(detail))
		is.Equal(response.Code, 503)
		is.Equal(response.Body.String(), "storage unavailable\nfence: complete\n")
		is.Equal(time.Since(start), 2*time.Second)
	})
	is.Equal(strings.Count(h.log.String(), "not ready"), 1)
}

// brokenStore is a store that cannot decide about keys, such as a standby.
type brokenStore struct {
	keys.Store
	broken bool
}

func (s *brokenStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	if s.broken {
		return keys.Changes{}, errors.New("standby")
	}
	return s.Store.Changes(ctx, since)
}

func TestReady_LogsTransitions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	store := &brokenStore{Store: memory.New().Keys()}
	service := must(keys.NewService(store, nil))(t)
	h.options.Keys = service
	ready := must(httpapi.New(&h.options))(t).Ready()
	for round := range 3 {
		for _, broken := range []bool{true, true, false, false} {
			store.broken = broken
			is.Equal(serveOnce(ready, "GET", "/readyz", "").Code == 503, broken)
		}
		is.Equal(strings.Count(h.log.String(), `msg="not ready"`), round+1)
		is.Equal(strings.Count(h.log.String(), `msg=ready`), round+1)
	}
}

// TestReady_AsksNoApplication has a SourceKey for which few sources are usable.
func TestReady_AsksNoApplication(t *testing.T) {
	t.Parallel()
	service := must(exports.NewService(memory.New().Exports(), &exports.Options{SourceKey: func(string) string { return "" }}))(t)
	ready := must(httpapi.New(&httpapi.Options{Exports: service}))(t).Ready()
	is.New(t).Equal(serveOnce(ready, "GET", "/readyz", "").Code, 200)
}
