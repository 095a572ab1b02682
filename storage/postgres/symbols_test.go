package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
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

// TestSymbols_ConfirmOnTheServerThatWasRead has pools whose first connection leads to a
// previous primary, which has changes that were not confirmed, and the next to the current one.
func TestSymbols_ConfirmOnTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	servers := []string{pgtest.Database(t), pgtest.Database(t)}
	var stores [2]symbols.Store
	for i, dsn := range servers {
		stores[i] = migrate(t, connect(t, dsn)).Symbols()
		folder := must(stores[i].InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
		must(stores[i].InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 2)))(t)
	}
	tags := must(symbols.NewTags("changed"))(t)
	rename := func(symbol *symbols.Symbol) error {
		symbol.Name = "changed"
		return nil
	}
	must(stores[0].UpdateSymbol(t.Context(), 1, rename))(t)
	must(stores[0].UpdateSymbols(t.Context(), []int64{2}, symbols.Stamp{}, func(info *symbols.SymbolInfo) error {
		info.Tags = tags
		return nil
	}))(t)

	// open returns a store, and a function that keeps others from its first connection.
	open := func() (symbols.Store, func()) {
		database := must(pgx.ParseConfig(servers[0]))(t).Database
		pool := connectWith(t, servers[1], func(config *pgxpool.Config) {
			current := config.ConnConfig.Database
			config.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
				config.Database, database = database, current
				return nil
			}
		})
		is.NoErr(pool.Ping(t.Context()))
		var held *pgxpool.Conn
		t.Cleanup(func() { held.Release() })
		return must(postgres.New(pool, nil))(t).Symbols(), func() {
			if held == nil {
				held = must(pool.Acquire(t.Context()))(t)
			}
		}
	}
	store, hold := open()
	must(store.UpdateSymbol(t.Context(), 1, func(symbol *symbols.Symbol) error {
		hold()
		return rename(symbol)
	}))(t)
	is.Equal(must(stores[1].GetSymbol(t.Context(), 1))(t).Name, "changed")
	store, hold = open()
	must(store.UpdateSymbols(t.Context(), []int64{2}, symbols.Stamp{}, func(info *symbols.SymbolInfo) error {
		hold()
		info.Tags = tags
		return nil
	}))(t)
	is.Equal(must(stores[1].GetSymbol(t.Context(), 2))(t).Tags, tags)
}

// A copy of a database on the same server has the same tables and another history, so that
// what a restore of the copy has undone is noticed.
func TestChanges_HistoryOfCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	original, admin := pgtest.Database(t), connect(t, pgtest.Database(t))
	history := func(dsn string) int64 {
		pool := must(pgxpool.New(t.Context(), dsn))(t)
		defer pool.Close()
		return must(migrate(t, pool).Symbols().Changes(t.Context(), symbols.Position{}))(t).History
	}
	before := history(original)
	is.Equal(history(original), before)
	u := must(url.Parse(original))(t)
	name := strings.TrimPrefix(u.Path, "/")
	execute(t, admin, `CREATE DATABASE `+name+`_copy TEMPLATE `+name)
	u.Path += "_copy"
	defer execute(t, admin, `DROP DATABASE `+name+`_copy`)
	is.True(history(u.String()) != before)
}
