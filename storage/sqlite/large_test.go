package sqlite_test

import (
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	modernc "modernc.org/sqlite"

	"example.com/canvasback/symbols"
)

// simultaneous is how many reads run at once, and the most of them that did.
type simultaneous struct{ running, most atomic.Int32 }

func (s *simultaneous) read() {
	now := s.running.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(10 * time.Millisecond)
	s.running.Add(-1)
}

// largeReads and smallReads are those of is_read, a function of SQL that reports whether
// the data of a symbol is read.
var largeReads, smallReads simultaneous

var registerIsRead = sync.OnceValue(func() error {
	return modernc.RegisterScalarFunction("is_read", 2, func(_ *modernc.FunctionContext, args []driver.Value) (driver.Value, error) {
		size, limit := args[0].(int64), args[1].(int64)
		switch {
		case size > limit:
			return int64(0), nil
		case size > symbols.LargeSize:
			largeReads.read()
		default:
			smallReads.read()
		}
		return int64(1), nil
	})
})

// SQLite has a copy of what it reads, outside of the memory that Go limits.
func TestGetSymbol_ReadsOneLargeSymbolAtATime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.NoErr(registerIsRead())
	f := &faultInjector{rewrite: strings.NewReplacer("CASE WHEN octet_length(s.data) <= ?3", "CASE WHEN is_read(octet_length(s.data), ?3)")}
	pool := sql.OpenDB(faultyConnector{file(t) + pragmas, f})
	t.Cleanup(func() { pool.Close() })
	db := migrate(t, pool)
	store := db.Symbols()
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	var ids []int64
	for _, size := range []int{1, 1, symbols.LargeSize + 1, symbols.LargeSize + 1} {
		list := must(store.InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{{Name: "n", Type: "t", Data: strings.Repeat("x", size)}}))(t)
		ids = append(ids, list[0].ID)
	}
	var readers sync.WaitGroup
	for range 5 {
		for _, id := range ids {
			readers.Go(func() { must(store.GetSymbol(t.Context(), id))(t) })
		}
	}
	readers.Wait()
	is.Equal(largeReads.most.Load(), int32(1))
	is.True(smallReads.most.Load() > 1)
}

// Each write of a row with large data takes twice its size in memory.
func TestUpdateSymbol_WritesRowOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := migrate(t, conn)
	for _, statement := range []string{
		"CREATE TABLE writes (n INTEGER)",
		"CREATE TRIGGER count_writes AFTER UPDATE ON canvasback_symbols BEGIN INSERT INTO writes VALUES (1); END",
	} {
		must(conn.ExecContext(t.Context(), statement))(t)
	}
	store := db.Symbols()
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	symbol := must(store.InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{{Name: "n", Type: "t", Data: "d"}}))(t)[0]
	changed := must(store.UpdateSymbol(t.Context(), symbol.ID, func(s *symbols.Symbol) error {
		s.Data = "changed"
		return nil
	}))(t)
	is.True(changed.Version != symbol.Version)
	var writes int
	is.NoErr(conn.QueryRowContext(t.Context(), "SELECT count(*) FROM writes").Scan(&writes))
	is.Equal(writes, 1)

	must(conn.ExecContext(t.Context(), "UPDATE canvasback_symbols SET data = 'by hand'"))(t)
	is.True(must(store.GetSymbol(t.Context(), symbol.ID))(t).Version != changed.Version)
}
