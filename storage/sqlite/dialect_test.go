package sqlite

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/symbols"
)

// Details of a symbol are behind its data. Reads without data find tags in an index, and
// plain lists read no details.
func TestReads_PassNoDataForDetails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+
		"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	is.NoErr(err)
	defer pool.Close()
	d, err := New(pool)
	is.NoErr(err)
	is.NoErr(d.Migrate(t.Context()))
	folder, err := d.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	is.NoErr(err)
	for name, test := range map[string]struct {
		read  func(symbols.Store) error
		index string // empty without tags
	}{
		"plain list": {func(s symbols.Store) error {
			_, err := s.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 1, false)
			return err
		}, ""},
		"infos": {func(s symbols.Store) error {
			_, err := s.ListSymbolInfos(t.Context(), folder.ID, symbols.Range{})
			return err
		}, "canvasback_symbols_tags_idx"},
		"info":    {func(s symbols.Store) error { _, err := s.GetSymbolInfo(t.Context(), 1); return err }, "canvasback_symbols_tags_idx"},
		"segment": {func(s symbols.Store) error { _, err := s.ListSegment(t.Context(), 0); return err }, "canvasback_symbols_tags_idx"},
	} {
		d.db.prepared.Clear()
		if err := test.read(d.Symbols()); err != nil && err != symbols.ErrSymbolNotFound {
			t.Fatal(name, err)
		}
		for text := range d.db.prepared.Range {
			statement := dialect.Replace(text.(string))
			for _, column := range []string{"tags", "meta", "created_at", "updated_at", "updated_by"} {
				if strings.Contains(statement, "s."+column) || test.index == "" && strings.Contains(statement, column) {
					t.Errorf("%s reads %s behind the data", name, column)
				}
			}
			rows, err := pool.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, []any{1, 1, 1, 1, ""}[:highest(statement)]...)
			var plan []string
			is.NoErr(readRows(rows, err, func(rows sqlstore.Rows) (err error) {
				for rows.Next() && err == nil {
					var id, parent, unused int
					plan = append(plan, "")
					err = rows.Scan(&id, &parent, &unused, &plan[len(plan)-1])
				}
				return err
			}))
			if test.index != "" && !strings.Contains(strings.Join(plan, "\n"), "USING COVERING INDEX "+test.index+" (id=?)") {
				t.Errorf("%s: %s", name, strings.Join(plan, "\n"))
			}
		}
	}
}

// highest returns the highest number of a parameter.
func highest(statement string) (n int) {
	for i := 1; i < 9; i++ {
		if strings.Contains(statement, "?"+strconv.Itoa(i)) {
			n = i
		}
	}
	return n
}
