package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
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

// Insertions that wait for the lock of a folder share a statement. An error of one and a
// canceled context do not affect the others.
func TestInsertSymbols_WaitingShareStatement(t *testing.T) {
	t.Parallel()
	const calls = 10
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	inserts := new(insertCounter)
	store := migrate(t, connectWith(t, dsn, traced(inserts.trace))).Symbols()
	for name, test := range map[string]struct {
		invalid string // data of a symbol that PostgreSQL rejects
		inserts int32
	}{
		"success": {inserts: 3},                              // the first one that skips the folder
		"error":   {invalid: "\x00", inserts: 3 + calls - 2}, // each by itself
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: name}))(t)
			tx := begin(t, operator, `SELECT FROM canvasback_folders WHERE id = $1 FOR UPDATE`, folder.ID)
			inserts.n.Store(0)

			var all sync.WaitGroup
			errs := make([]error, calls)
			inserted := make([]symbols.Symbol, calls)
			start := func(ctx context.Context, i int, data string) (returned chan struct{}) {
				joined := make(chan struct{})
				returned = make(chan struct{})
				all.Go(func() {
					defer close(returned)
					symbol := symbols.Symbol{Name: fmt.Sprint(i), Data: data}
					list, err := store.InsertSymbols(&waitContext{Context: ctx, waits: joined}, folder.ID, []symbols.Symbol{symbol})
					if errs[i] = err; err == nil {
						inserted[i] = list[0]
					}
				})
				<-joined
				return returned
			}
			start(t.Context(), 0, "")
			eventually(t, 1, waiting(t, operator))
			canceled, cancel := context.WithCancel(t.Context())
			returned := start(canceled, 1, "")
			cancel()
			<-returned // the only one of its group
			canceled, cancel = context.WithCancel(t.Context())
			returned = start(canceled, 1, "")
			start(t.Context(), 2, test.invalid)
			for i := 3; i < calls; i++ {
				start(t.Context(), i, "")
			}
			cancel()
			<-returned
			is.NoErr(tx.Commit(t.Context()))
			all.Wait()
			is.Equal(inserts.n.Load(), test.inserts)

			want := make(map[symbols.Symbol]bool)
			for i, err := range errs {
				switch {
				case i == 1:
					is.Equal(err, context.Canceled)
				case i == 2 && test.invalid != "":
					is.True(err != nil)
				default:
					is.NoErr(err)
					want[inserted[i]] = true
				}
			}
			page := must(store.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 1<<20, true))(t)
			is.Equal(len(page.Symbols), len(want))
			for _, symbol := range page.Symbols {
				is.True(want[symbol])
			}
		})
	}
}

// Insertions into several folders that arrive during another one share a statement and
// its commit. They do not wait for a folder that somebody else has locked.
func TestInsertSymbols_FoldersShareStatement(t *testing.T) {
	t.Parallel()
	const folders = 10
	is := is.New(t)
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	inserts := &insertCounter{hold: make(chan struct{})}
	store := migrate(t, connectWith(t, dsn, traced(inserts.trace))).Symbols()
	ids := []int64{0: 1 << 40} // no folder
	for i := range folders {
		folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: fmt.Sprint(i)}))(t)
		ids = append(ids, folder.ID)
	}
	tx := begin(t, operator, `SELECT FROM canvasback_folders WHERE id = $1 FOR UPDATE`, ids[folders])

	var missing, locked, others sync.WaitGroup
	insert := func(folderID int64, want error) (joined chan struct{}, f func()) {
		joined = make(chan struct{})
		return joined, func() {
			list, err := store.InsertSymbols(&waitContext{Context: t.Context(), waits: joined}, folderID, []symbols.Symbol{{Name: fmt.Sprint(folderID)}})
			if err != want {
				t.Errorf("folder %d: %v", folderID, err)
			} else if err == nil {
				stored, err := store.GetSymbol(t.Context(), list[0].ID)
				if err != nil || stored != list[0] || stored.FolderID != folderID || stored.Name != fmt.Sprint(folderID) {
					t.Errorf("folder %d: inserted %v, stored %v, %v", folderID, list[0], stored, err)
				}
			}
		}
	}
	for i, id := range append(ids[1:2:2], ids...) { // the first one runs alone
		group, want := &others, error(nil)
		switch i {
		case 1:
			group, want = &missing, symbols.ErrFolderNotFound
		case 1 + folders:
			group = &locked
		}
		joined, call := insert(id, want)
		group.Go(call)
		<-joined
		eventually(t, 1, func() int { return int(inserts.n.Load()) })
	}
	close(inserts.hold)
	others.Wait()
	missing.Wait()
	is.NoErr(tx.Commit(t.Context()))
	locked.Wait()
	is.Equal(inserts.n.Load(), int32(4)) // the first, all others, the missing folder, the locked one
}

// waitContext closes the channel waits at the first wait for its end.
type waitContext struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

type insertCounter struct {
	n    atomic.Int32
	hold chan struct{} // closed when they may run, unless nil
}

func (c *insertCounter) trace(_ *pgx.Conn, data pgx.TraceQueryStartData) {
	if strings.Contains(data.SQL, "INSERT INTO canvasback_symbols ") {
		if c.n.Add(1); c.hold != nil {
			<-c.hold
		}
	}
}
