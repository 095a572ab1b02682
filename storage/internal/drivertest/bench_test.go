package drivertest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/symbols"
)

// BenchmarkCalls measures the calls that requests of clients wait for, on a storage with
// 1,000 keys, symbols and exports.
func BenchmarkCalls(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkCalls(b, memory.New()) })
	for name, d := range drivers {
		b.Run(name, func(b *testing.B) { benchmarkCalls(b, d.newDatabase(b, "").migrated()) })
	}
}

func benchmarkCalls(b *testing.B, s storagetest.Storage) {
	is := is.New(b)
	const count = 1000
	ctx, createdAt := b.Context(), time.Date(2026, 3, 30, 12, 0, 0, 123e6, time.UTC)
	folder := must(s.Symbols().InsertFolder(ctx, symbols.Folder{Name: "folder"}))(b)
	list := make([]symbols.Symbol, count)
	for i := range list {
		list[i] = symbols.Symbol{Type: "image/svg+xml", Data: strings.Repeat("<path d='M0 0'/>", 4<<10/16)}
	}
	list = must(s.Symbols().InsertSymbols(ctx, folder.ID, list))(b)
	put := func(i int) error {
		source := strconv.Itoa(i % count)
		_, _, err := s.Exports().Put(ctx, exports.Export{SourceURL: source, CreatedAt: createdAt, UpdatedAt: createdAt}, exports.PutRule{})
		return err
	}
	var uses []keys.Use
	var sources []string
	for i := range count {
		key, err := s.Keys().Insert(ctx, keys.Key{Active: true, Digest: digestOf(i), CreatedAt: createdAt, UpdatedAt: createdAt})
		is.NoErr(err)
		uses = append(uses, keys.Use{ID: key.ID, CreatedAt: key.CreatedAt, At: createdAt, Count: 1})
		is.NoErr(put(i))
		sources = append(sources, strconv.Itoa(i))
	}
	known := must(s.Keys().Changes(ctx, 0))(b)

	for _, bench := range []struct {
		name string
		do   func(i int) error
	}{
		{"keys/find", func(i int) error {
			_, err := s.Keys().Find(ctx, digestOf(i%count))
			return err
		}},
		{"keys/changes", func(int) error {
			_, err := s.Keys().Changes(ctx, known.Epoch)
			return err
		}},
		{"keys/touch 1,000", func(i int) error {
			for j := range uses {
				uses[j].At = createdAt.Add(time.Duration(i) * time.Second)
			}
			return s.Keys().Touch(ctx, uses, uses[0].At)
		}},
		{"symbols/version", func(int) error {
			_, err := s.Symbols().ContentsVersion(ctx, folder.ID)
			return err
		}},
		{"symbols/get 4 KB", func(i int) error {
			_, err := s.Symbols().GetSymbol(ctx, list[i%count].ID)
			return err
		}},
		{"symbols/list 256 KB", func(int) error {
			_, err := s.Symbols().ListSymbols(ctx, folder.ID, symbols.Range{}, 256<<10, true)
			return err
		}},
		{"symbols/update 4 KB", func(i int) error {
			_, err := s.Symbols().UpdateSymbol(ctx, list[i%count].ID, func(symbol *symbols.Symbol) error {
				symbol.Name = strconv.Itoa(i)
				return nil
			})
			return err
		}},
		{"symbols/insert 4 KB", func(int) error {
			_, err := s.Symbols().InsertSymbols(ctx, folder.ID, list[:1])
			return err
		}},
		{"exports/find 1", func(i int) error {
			_, err := s.Exports().Find(ctx, "", sources[i%count])
			return err
		}},
		{"exports/find 1,000", func(int) error {
			_, err := s.Exports().Find(ctx, "", sources...)
			return err
		}},
		{"exports/put", put},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				is.NoErr(bench.do(i))
			}
		})
	}
}

var benchSymbol = symbols.Symbol{Name: "Gate valve", Type: "application/json", Data: strings.Repeat(`{"x":12}`, 512)}

// BenchmarkInsertSymbol compares the insertion of a symbol of 4 KB with an INSERT into a
// table without triggers, where each row is one commit.
func BenchmarkInsertSymbol(b *testing.B) {
	for name, d := range drivers {
		b.Run(name, func(b *testing.B) {
			db := d.newDatabase(b, d.sixteen)
			store := db.migrated().Symbols()
			var folders []int64
			for i := range 20 {
				folder, err := store.InsertFolder(b.Context(), symbols.Folder{Name: fmt.Sprint("folder ", i)})
				is.New(b).NoErr(err)
				folders = append(folders, folder.ID)
			}
			insertPlain := db.plainInsert()
			bench := func(goroutines, folderCount int) {
				b.Run(fmt.Sprint(goroutines, "/folders=", folderCount), func(b *testing.B) {
					folder := func() int64 { return folders[rand.IntN(folderCount)] }
					compare(b, 1600/goroutines, goroutines, func(int, int) error {
						_, err := store.InsertSymbols(b.Context(), folder(), []symbols.Symbol{benchSymbol})
						return err
					}, func(int, int) error { return insertPlain(folder(), benchSymbol) })
				})
			}
			bench(1, 1)
			bench(16, 1)
			bench(16, len(folders))
		})
	}
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

// BenchmarkSymbolPages compares pages of symbols of 4 KB with a query by hand that
// knows how many symbols a page has.
func BenchmarkSymbolPages(b *testing.B) {
	is := is.New(b)
	pool := must(pgxpool.New(b.Context(), pgtest.Database(b)))(b)
	b.Cleanup(pool.Close)
	db := must(postgres.New(pool, nil))(b)
	is.NoErr(db.Migrate(b.Context()))
	store := db.Symbols()
	folder := must(store.InsertFolder(b.Context(), symbols.Folder{Name: "folder"}))(b)
	list := make([]symbols.Symbol, 1000)
	for i := range list {
		list[i] = benchSymbol
	}
	must(store.InsertSymbols(b.Context(), folder.ID, list))(b)
	must(pool.Exec(b.Context(), `VACUUM ANALYZE`))(b)
	const size = 256 << 10
	compare(b, 50, 1, func(_, i int) error {
		page, err := store.ListSymbols(b.Context(), folder.ID, symbols.Range{After: int64(i) * 10}, size, true)
		if err == nil && len(page.Symbols) != size/len(benchSymbol.Data) {
			b.Fatal(len(page.Symbols), "symbols")
		}
		return err
	}, func(_, i int) error {
		rows, _ := pool.Query(b.Context(), `
			SELECT id, name, type, data, version
			FROM canvasback_symbols
			WHERE folder_id = $1 AND id > $2
			ORDER BY id
			LIMIT $3`,
			folder.ID, i*10, size/len(benchSymbol.Data),
		)
		_, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID               int64
			Name, Type, Data string
			Version          int64
		}])
		return err
	})
}
