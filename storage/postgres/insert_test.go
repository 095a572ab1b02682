package postgres_test

import (
	"context"
	"fmt"
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

// Insertions that wait for the lock of a folder share a statement. An error of one and a
// canceled context do not affect the others.
func TestInsertSymbols_WaitingShareStatement(t *testing.T) {
	t.Parallel()
	const calls = 10
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	inserts := new(insertCounter)
	db := must(postgres.New(connectWith(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.Tracer = inserts }), nil))
	store := db.Symbols()
	is := is.New(t)
	is.NoErr(db.Migrate(t.Context()))
	for name, test := range map[string]struct {
		invalid string // data of a symbol that PostgreSQL rejects
		inserts int32
	}{
		"success": {inserts: 2},
		"error":   {invalid: "\x00", inserts: 2 + calls - 2}, // each by itself
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			folder, err := store.InsertFolder(t.Context(), symbols.Folder{Name: name})
			is.NoErr(err)
			tx, err := operator.Begin(t.Context())
			is.NoErr(err)
			defer tx.Rollback(context.Background())
			_, err = tx.Exec(t.Context(), `SELECT FROM canvasback_folders WHERE id = $1 FOR UPDATE`, folder.ID)
			is.NoErr(err)
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
			page, err := store.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 1<<20, true)
			is.NoErr(err)
			is.Equal(len(page.Symbols), len(want))
			for _, symbol := range page.Symbols {
				is.True(want[symbol])
			}
		})
	}
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
type insertCounter struct{ n atomic.Int32 }

func (c *insertCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "INSERT INTO canvasback_symbols ") {
		c.n.Add(1)
	}
	return ctx
}

func (*insertCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
