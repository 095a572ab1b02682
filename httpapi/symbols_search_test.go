package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// symbolHook is a store that calls a function before it reads a symbol with its data, and,
// with the id 0, before it creates symbols.
type symbolHook struct {
	symbols.Store
	before func(id int64) error
}

func (s symbolHook) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	if err := s.before(id); err != nil {
		return symbols.Symbol{}, err
	}
	return s.Store.GetSymbol(ctx, id)
}

func (s symbolHook) InsertSymbols(ctx context.Context, id int64, list []symbols.Symbol) ([]symbols.Symbol, error) {
	if err := s.before(0); err != nil {
		return nil, err
	}
	return s.Store.InsertSymbols(ctx, id, list)
}

func TestSearch_SymbolsChangeAfterTheyAreFound(t *testing.T) {
	t.Parallel()
	store := memory.New().Symbols()
	writer := must(symbols.NewService(store, nil))(t)
	folder := must(writer.CreateFolder(t.Context(), "A"))(t)
	for i := range 5 {
		must(writer.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: fmt.Sprint("valve ", i+1), Type: "a/b", Data: "x"}))(t)
	}
	changes := map[int64]symbols.SymbolFields{2: {Data: new("y")}, 3: {Name: new("Valve III")}, 4: {Name: new("pump")}}
	h := serve(t, func(o *httpapi.Options) {
		o.Symbols = must(symbols.NewService(symbolHook{store, func(id int64) error {
			if id == 5 {
				return writer.DeleteSymbol(context.Background(), id, symbols.Any, 0)
			}
			_, err := writer.UpdateSymbol(context.Background(), id, changes[id], symbols.Any)
			return err
		}}, nil))(t)
	})
	want := `[{"name":"valve 1","data":"x"},{"name":"valve 2","data":"y"},{"name":"Valve III","data":"x"}]`
	h.client("GET", "/symbol/search?q=VALVE&fields=name,data", "").wantBody(200, want)
}

// segmentStore tells which segments of the search index are read.
type segmentStore struct {
	symbols.Store
	reads chan int64
}

func (s segmentStore) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	defer func() { s.reads <- id }()
	return s.Store.ListSegment(ctx, id)
}

func TestSearch_FirstFindsLoadedIndex(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]func(*httpapi.API) http.Handler{
		"readiness": func(api *httpapi.API) http.Handler { return api.Ready() },
		"read":      func(api *httpapi.API) http.Handler { return api },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			store := segmentStore{memory.New().Symbols(), make(chan int64, 10)}
			must(must(symbols.NewService(store.Store, nil))(t).CreateFolder(t.Context(), "A"))(t)
			service := must(symbols.NewService(store, nil))(t)
			must(service.CreateSymbol(t.Context(), 1, symbols.NewSymbol{Name: "valve", Type: "a/b", Data: "x"}))(t)
			api := must(httpapi.New(&httpapi.Options{Symbols: service, DangerouslySkipClientKeys: true}))(t)
			get := func(handler http.Handler, path string) *httptest.ResponseRecorder {
				recorder := serveOnce(handler, "GET", path, "")
				is.Equal(recorder.Code, 200)
				return recorder
			}
			for range 3 {
				get(trigger(api), "/symbol/folders")
			}
			eventually(t, func() bool { return len(store.reads) == 1 })
			is.Equal(<-store.reads, int64(0))
			eventually(t, func() bool { // soon it is also kept
				is.True(strings.Contains(get(api, "/symbol/search?q=valve").Body.String(), `"valve"`))
				select {
				case <-store.reads:
					return false
				default:
					return true
				}
			})
		})
	}
}
