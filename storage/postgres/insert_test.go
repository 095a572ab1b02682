package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

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

// insertCounter counts statements that insert symbols.
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
