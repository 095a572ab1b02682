package sqlite_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	modernc "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// If the database cannot grow, writes fail and reads succeed. After a final deletion writes
// succeed again.
func TestStorage_FullDatabaseRejectsWritesOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := openLibrary(t, file(t)+pragmas+"&_pragma=max_page_count(300)")
	first := l.folder("first")
	stored := l.fill(first)
	for range 3 {
		is.True(l.insert(first) != nil)
		is.Equal(l.count(first), stored) // only the acknowledged symbols
	}

	is.NoErr(l.DeleteFolder(t.Context(), first, symbols.Any, 0))
	second := l.folder("second")
	is.True(l.fill(second) > stored/2)
	l.checkIntegrity()
}

// rejectWritesOnly calls fill, which fills the disk, and checks that reads succeed, and
// that writes return an error and change nothing. After empty they must succeed.
func rejectWritesOnly(t *testing.T, db *sqlite.DB, fill, empty func()) {
	is := is.New(t)
	w := must(newWorker(t.Context(), db))(t)
	n := 0
	for ; n < deleteStep; n++ {
		must(w.write(t.Context(), n))(t)
	}
	fill()
	var err error
	for puts := 0; err == nil; puts++ { // the smallest of all writes
		is.True(puts < 10_000)
		_, _, err = db.Exports().Put(t.Context(), exports.Export{SourceURL: "filler", CreatedAt: time.Now(), UpdatedAt: time.Now()}, exports.PutRule{})
	}
	for step := range steps {
		_, err := w.write(t.Context(), n+step)
		_, ok := errors.AsType[*modernc.Error](err)
		is.True(ok)
		must(db.Keys().Find(t.Context(), w.digest(rotateStep)))(t)
		content, _, _ := w.actual(t, db)
		is.Equal(content, w.expected(n))
	}
	empty()
	for range steps {
		must(w.write(t.Context(), n))(t) // without a restart
		n++
		content, _, _ := w.actual(t, db)
		is.Equal(content, w.expected(n))
	}
}

// library is a service of symbols over a database file.
type library struct {
	*symbols.Service
	t    *testing.T
	pool *sql.DB
}

func openLibrary(t *testing.T, dsn string) library {
	t.Helper()
	pool := connect(t, dsn)
	options := &symbols.Options{TrashLifetime: -1, PageSize: 64 << 20} // a page has all symbols
	return library{must(symbols.NewService(migrate(t, pool).Symbols(), options))(t), t, pool}
}

func (l library) folder(name string) int64 { return must(l.CreateFolder(l.t.Context(), name))(l.t).ID }

// insert adds a symbol to a folder. The error is nil or matches symbols.ErrUnavailable.
func (l library) insert(folder int64) error {
	symbol := symbols.NewSymbol{Name: "symbol", Type: "image/svg+xml", Data: strings.Repeat("<svg/>", 4000)}
	_, err := l.CreateSymbol(l.t.Context(), folder, symbol)
	if err != nil && !errors.Is(err, symbols.ErrUnavailable) {
		l.t.Fatal(err)
	}
	return err
}

// fill adds symbols to a folder until the store is full, and returns how many it
// accepted.
func (l library) fill(folder int64) int {
	l.t.Helper()
	for stored := range 1000 {
		if l.insert(folder) != nil {
			return stored
		}
	}
	l.t.Fatal("the store accepted 1000 symbols")
	return 0
}

// count returns the number of symbols in a folder.
func (l library) count(folder int64) int {
	l.t.Helper()
	list := must(l.ListSymbols(l.t.Context(), folder, symbols.Range{}))(l.t).Symbols
	for _, symbol := range list {
		if len(symbol.Data) != 6*4000 {
			l.t.Errorf("a symbol has %d bytes", len(symbol.Data))
		}
	}
	return len(list)
}

func (l library) checkIntegrity() {
	l.t.Helper()
	var integrity string
	if err := l.pool.QueryRowContext(l.t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		l.t.Errorf("%s, %v", integrity, err)
	}
}
