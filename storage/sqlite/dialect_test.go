package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// Details of a symbol are behind its data. Reads without data find tags in an index, and
// plain lists read no details.
func TestReads_PassNoDataForDetails(t *testing.T) {
	t.Parallel()
	pool, d := openFile(t)
	folder := must(d.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	symbol := must(d.Symbols().InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1)))(t)[0]
	s := d.Symbols()
	const ofTags = "canvasback_symbols_tags_idx"
	for name, test := range map[string]struct {
		read  func()
		index string // empty without tags
	}{
		"plain list": {func() { must(s.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 1, false))(t) }, ""},
		"infos":      {func() { must(s.ListSymbolInfos(t.Context(), folder.ID, symbols.Range{}))(t) }, ofTags},
		"info":       {func() { must(s.GetSymbolInfo(t.Context(), symbol.ID))(t) }, ofTags},
		"segment":    {func() { must(s.ListSegment(t.Context(), 0))(t) }, ofTags},
	} {
		d.db.prepared.Clear()
		test.read()
		for text := range d.db.prepared.Range {
			statement := dialect.Replace(text.(string))
			for _, column := range []string{"tags", "meta", "created_at", "updated_at", "updated_by"} {
				if strings.Contains(statement, "s."+column) || test.index == "" && strings.Contains(statement, column) {
					t.Errorf("%s reads %s behind the data", name, column)
				}
			}
			plan := queryPlan(t, pool, statement)
			if test.index != "" && !strings.Contains(plan, "USING COVERING INDEX "+test.index+" (id=?)") {
				t.Errorf("%s: %s", name, plan)
			}
		}
	}
}

// TestInsertLink_AddsUpSizesInIndex: in the rows, sizes are behind plans of up to 1 MiB.
func TestInsertLink_AddsUpSizesInIndex(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, d := openFile(t)
	link := exports.StoredLink{CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	limit := exports.LinkLimit{Links: 1, Bytes: 1 << 20}
	var plan string
	store := sqlstore.Exports{DB: tracedDB{d.db, func(statement string) { plan = queryPlan(t, pool, dialect.Replace(statement)) }}}
	is.NoErr(store.InsertLink(t.Context(), link, exports.LinkLimits{PerOwner: limit, PerClient: limit, Served: 1}))
	if !strings.Contains(plan, "USING COVERING INDEX canvasback_links_owner_client_size_idx (owner=?)") {
		t.Error(plan) // of the last statement
	}
}

func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// tracedDB passes the statements that transactions execute to trace.
type tracedDB struct {
	sqlstore.DB
	trace func(statement string)
}

type tracedTx struct {
	sqlstore.Tx
	trace func(statement string)
}

func (db tracedDB) Transact(ctx context.Context, change func(sqlstore.Tx) error) error {
	return db.DB.Transact(ctx, func(tx sqlstore.Tx) error { return change(tracedTx{tx, db.trace}) })
}

func (tx tracedTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tx.trace(statement)
	return tx.Tx.Exec(ctx, statement, args...)
}

// openFile returns a migrated driver.
func openFile(t *testing.T) (*sql.DB, *DB) {
	pool := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+
		"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))(t)
	t.Cleanup(func() { pool.Close() })
	d := must(New(pool))(t)
	is.New(t).NoErr(d.Migrate(t.Context()))
	return pool, d
}

// queryPlan returns how SQLite runs a statement.
func queryPlan(t *testing.T, pool *sql.DB, statement string) string {
	arguments := make([]any, highest(statement))
	for i := range arguments {
		arguments[i] = 1
	}
	rows, err := pool.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, arguments...)
	var plan strings.Builder
	is.New(t).NoErr(readRows(rows, err, func(rows sqlstore.Rows) (err error) {
		for rows.Next() && err == nil {
			var id, parent, unused int
			var step string
			err = rows.Scan(&id, &parent, &unused, &step)
			fmt.Fprintln(&plan, step)
		}
		return err
	}))
	return plan.String()
}

// highest returns the highest number of a parameter.
func highest(statement string) (n int) {
	for i := 1; i < 20; i++ {
		if strings.Contains(statement, "?"+strconv.Itoa(i)) {
			n = i
		}
	}
	return n
}
