package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/internal/storebench"
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
	storebench.Compare(b, 50, 1, func(_, i int) error { return page(int64(i) * 10) }, func(_, i int) error { return byHand(int64(i) * 10) })
}

var benchSymbol = symbols.Symbol{Name: "Gate valve", Type: "application/json", Data: strings.Repeat(`{"x":12}`, 512)}

// benchSymbols creates a folder.
func benchSymbols(b *testing.B, pool *pgxpool.Pool) (symbols.Store, int64) {
	db := must(postgres.New(pool, nil))
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	folder, err := db.Symbols().InsertFolder(context.Background(), symbols.Folder{Name: "folder"})
	if err != nil {
		b.Fatal(err)
	}
	return db.Symbols(), folder.ID
}

// BenchmarkInsertSymbol compares the insertion of a symbol with an INSERT into a table
// without triggers.
func BenchmarkInsertSymbol(b *testing.B) {
	pool := connectWith(b, pgtest.Database(b), func(c *pgxpool.Config) { c.MaxConns = 16 })
	store, folder := benchSymbols(b, pool)
	for _, statement := range []string{
		`CREATE TABLE plain (LIKE canvasback_symbols INCLUDING IDENTITY INCLUDING INDEXES INCLUDING STORAGE INCLUDING DEFAULTS)`,
		`ALTER TABLE plain SET (toast_tuple_target = 8160)`,
	} {
		if _, err := pool.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			storebench.Compare(b, 400/goroutines, goroutines, func(int, int) error {
				_, err := store.InsertSymbols(b.Context(), folder, []symbols.Symbol{benchSymbol})
				return err
			}, func(int, int) error {
				_, err := pool.Exec(b.Context(), `
					INSERT INTO plain (folder_id, name, type, data)
					VALUES ($1, $2, $3, $4)`,
					folder, benchSymbol.Name, benchSymbol.Type, benchSymbol.Data,
				)
				return err
			})
		})
	}
}
