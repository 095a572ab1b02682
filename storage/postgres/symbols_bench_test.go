package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

// BenchmarkSymbolPages compares pages of symbols of 4 KB with a query by hand that
// knows how many symbols a page has.
func BenchmarkSymbolPages(b *testing.B) {
	pool := connect(b, pgtest.Database(b))
	store, folder := benchSymbols(b, pool)
	list := make([]symbols.Symbol, 1000)
	for i := range list {
		list[i] = benchSymbol
	}
	if _, err := store.InsertSymbols(b.Context(), folder, list); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), `VACUUM ANALYZE`); err != nil {
		b.Fatal(err)
	}
	const size = 256 << 10
	page := func(after int64) error {
		page, err := store.ListSymbols(b.Context(), folder, symbols.Range{After: after}, size)
		if err == nil && len(page.Symbols) != size/len(benchSymbol.Data) {
			b.Fatal(len(page.Symbols), "symbols")
		}
		return err
	}
	byHand := func(after int64) error {
		rows, _ := pool.Query(b.Context(), `
			SELECT id, name, type, data, version
			FROM canvasback_symbols
			WHERE folder_id = $1 AND id > $2
			ORDER BY id
			LIMIT $3`,
			folder, after, size/len(benchSymbol.Data),
		)
		_, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID               int64
			Name, Type, Data string
			Version          int64
		}])
		return err
	}
	compare(b, 50, 1, func(_, i int) error { return page(int64(i) * 10) }, func(_, i int) error { return byHand(int64(i) * 10) })
}

var benchSymbol = symbols.Symbol{Name: "Gate valve", Type: "application/json", Data: strings.Repeat(`{"x":12}`, 512)}

// benchSymbols creates a folder.
func benchSymbols(b *testing.B, pool *pgxpool.Pool) (symbols.Store, int64) {
	db := postgres.New(pool, nil)
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	folder, err := db.Symbols().InsertFolder(context.Background(), symbols.Folder{Name: "folder"})
	if err != nil {
		b.Fatal(err)
	}
	return db.Symbols(), folder.ID
}

// compare reports the speed of calls relative to that of others. It alternates, so
// that other load affects both alike. Each round calls them times times in each of
// some goroutines.
func compare(b *testing.B, times, goroutines int, call, other func(goroutine, i int) error) {
	round := func(call func(goroutine, i int) error) time.Duration {
		start := time.Now()
		errs := make(chan error, goroutines)
		for g := range goroutines {
			go func() {
				for i := range times {
					if err := call(g, i); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range goroutines {
			if err := <-errs; err != nil {
				b.Error(err)
			}
		}
		return time.Since(start)
	}
	round(call)
	round(other)
	var spent, others time.Duration
	n := 0
	for b.Loop() {
		spent += round(call)
		others += round(other)
		n += times * goroutines
	}
	b.ReportMetric(float64(others)/float64(spent), "x-as-fast")
	b.ReportMetric(float64(spent.Microseconds())/float64(n), "us/call")
}
