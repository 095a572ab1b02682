package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

// PostgreSQL compiles expensive plans before it runs them, which takes longer than
// most reads. It takes each table without statistics for one of about 2,000 rows.
func TestReads_AreTooCheapToCompile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	reads := make(queryRecorder)
	db := migrate(t, connectWith(t, dsn, traced(reads.trace)))
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	execute(t, operator, `INSERT INTO canvasback_folders (name) SELECT i::text FROM generate_series(1, 1000) AS i`)
	execute(t, operator, `ANALYZE canvasback_folders`)

	clear(reads)
	for _, limit := range []int{0, 100} {
		must(db.Symbols().ListFolders(t.Context(), symbols.Range{Limit: limit}))(t)
		must(db.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{Limit: limit}, 1<<20, true))(t)
		must(db.Keys().List(t.Context(), keys.Filter{}, keys.Range{Limit: limit}))(t)
		must(db.Exports().List(t.Context(), exports.Filter{}, exports.Range{Limit: limit}))(t)
	}
	must(db.Symbols().ListSegments(t.Context()))(t)
	must(db.Symbols().ListSegment(t.Context(), 0))(t)
	must(db.Symbols().FindSymbolInfos(t.Context(), []int64{1, 2}))(t)

	is.True(len(reads) >= 6)
	for query, args := range reads {
		var plan []struct {
			Plan struct {
				TotalCost float64 `json:"Total Cost"`
			}
		}
		is.NoErr(operator.QueryRow(t.Context(), `EXPLAIN (FORMAT JSON) `+query, args...).Scan(&plan))
		const jitAboveCost = 100_000 // the default
		if cost := plan[0].Plan.TotalCost; cost > jitAboveCost/10 {
			t.Errorf("a plan costs %.0f:%s", cost, query)
		}
	}
}

// Planning each insertion would take a third of its time.
func TestInsertSymbols_PlansOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connectWith(t, pgtest.Database(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	db := migrate(t, pool)
	execute(t, pool, `INSERT INTO canvasback_folders (name) SELECT i::text FROM generate_series(1, 1000) AS i`)
	execute(t, pool, `ANALYZE canvasback_folders`)
	for range 20 {
		must(db.Symbols().InsertSymbols(t.Context(), 1, []symbols.Symbol{{Name: "a"}}))(t)
	}
	custom := count(t, pool, `
		SELECT sum(custom_plans)
		FROM pg_prepared_statements
		WHERE statement ILIKE '%INSERT INTO%canvasback_symbols%'`)
	const always = 5 // custom plans before PostgreSQL compares their costs
	is.Equal(custom, always)
}

// A page of a large folder reads the symbols in the order of an index, also before the
// table has statistics.
func TestListSymbols_ReadsFreshFolderInOrder(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	reads := make(queryRecorder)
	db := migrate(t, connectWith(t, dsn, traced(reads.trace)))
	execute(t, operator, `ALTER TABLE canvasback_symbols SET (autovacuum_enabled = off)`)
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	execute(t, operator, `
		INSERT INTO canvasback_symbols (folder_id, name, type, data)
		SELECT id, '', '', repeat(md5(i::text), 64)
		FROM canvasback_folders, generate_series(1, 10000) AS i`)
	for _, statement := range []string{`SELECT`, `ANALYZE canvasback_symbols`} {
		execute(t, operator, statement)
		clear(reads)
		for _, after := range []int64{0, 9000} {
			must(db.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: after}, 64<<10, false))(t)
			for query, args := range reads {
				rows, _ := operator.Query(t.Context(), `EXPLAIN `+query, args...)
				plan := must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
				for _, line := range plan {
					if strings.Contains(line, "Sort ") || strings.Contains(line, "Seq Scan on canvasback_symbols") || strings.Contains(line, "Bitmap") {
						t.Errorf("after %s: %s", statement, strings.Join(plan, "\n"))
						break
					}
				}
			}
		}
	}
}

type queryRecorder map[string][]any

func (q queryRecorder) trace(_ *pgx.Conn, data pgx.TraceQueryStartData) {
	if text := strings.TrimSpace(data.SQL); strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "WITH") {
		q[data.SQL] = data.Args
	}
}
