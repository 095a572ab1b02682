package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/symbols"
)

// TestSymbolList_LongListMemory reads a list of symbols of 4 KB from SQLite in steps.
// Between them it measures the growth of the heap, and checks that no database
// connection is in use.
func TestSymbolList_LongListMemory(t *testing.T) {
	is := is.New(t)
	const count = 3000
	pool, db := openSQLite(t, filepath.Join(t.TempDir(), "huge.db"))
	service := must(symbols.NewService(db.Symbols(), nil))(t)
	folder := must(service.CreateFolder(t.Context(), "A"))(t)
	list := make([]symbols.Symbol, 500)
	for i := range list {
		list[i] = symbols.Symbol{Name: fmt.Sprint(i), Type: "text/plain", Data: strings.Repeat("x", 4<<10)}
	}
	for range count / len(list) {
		must(db.Symbols().InsertSymbols(t.Context(), folder.ID, list))(t)
	}
	server := httptest.NewServer(httpapi.Handler(&httpapi.Options{Symbols: service, Limits: httpapi.Limits{ListCache: 16 << 20}, DangerouslySkipClientKeys: true}))
	defer server.Close()

	idle, heap := usedHeap(), int64(0)
	response := must(http.Get(server.URL + "/symbol/folders/1/symbols"))(t)
	defer response.Body.Close()
	var read int64
	for {
		n, err := io.CopyN(io.Discard, response.Body, count*(4<<10)/16)
		read += n
		heap = max(heap, usedHeap()-idle)
		if err == io.EOF {
			break
		}
		is.NoErr(err)
		eventually(t, func() bool { return pool.Stats().InUse == 0 }) // while the client is slow
	}
	is.True(read >= count*(4<<10))
	is.True(heap <= 8<<20)
}
