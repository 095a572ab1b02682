package postgres_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

// A page visits at most 1.2 times the symbols that it returns.
func TestListSymbols_VisitsFewOtherSymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connectWith(t, pgtest.Database(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	db := migrate(t, pool)
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	list := make([]symbols.Symbol, 300)
	for i := range list {
		list[i].Data = strings.Repeat("x", 4000+i)
	}
	must(db.Symbols().InsertSymbols(t.Context(), folder.ID, list))(t)
	visited := func() int {
		if _, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Skip("PostgreSQL 14 reports statistics late")
		}
		return count(t, pool, `
			SELECT idx_tup_fetch + seq_tup_read
			FROM pg_stat_user_tables
			WHERE relname = 'canvasback_symbols'`)
	}
	must(pool.Exec(t.Context(), `ANALYZE canvasback_symbols`))(t)
	before := visited()
	page := must(db.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: 50}, 256<<10, true))(t)
	is.True(page.More)
	is.True(len(page.Symbols) > 60)
	if n := visited() - before; n > len(page.Symbols)*12/10 {
		t.Errorf("a page of %d symbols visits %d", len(page.Symbols), n)
	}
}

// TestInsertFolder_TenantTooLong has a tenant that is too long for an index, which no service
// permits.
func TestInsertFolder_TenantTooLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	tenant := rand.Text()
	for len(tenant) < 3000 {
		tenant += rand.Text()
	}
	store := migrate(t, connect(t, pgtest.Database(t))).Symbols().Tenant(tenant)
	_, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "a"})
	is.True(err != nil && !errors.Is(err, symbols.ErrFolderNameTaken))
}
