package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

// TestStorage_PassesInEachQueryMode runs the contracts without prepared
// statements, as behind a pooler, with a stricter default isolation level, other forms of
// times and bytes in text, and fenced.
func TestStorage_PassesInEachQueryMode(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, test := range []struct {
		name, settings string
		fence          postgres.Fence
	}{
		{"exec mode, serializable", "&default_query_exec_mode=exec&default_transaction_isolation=serializable&DateStyle=German", postgres.FenceAuto},
		{"simple protocol, fenced", "&default_query_exec_mode=simple_protocol&bytea_output=escape", postgres.FenceAlways},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSchemas(connect(t, pgtest.Database(t)+test.settings))
			s.fence = test.fence
			storagetest.Run(t, s.open)
		})
	}
}

// schemas provides storages in the schemas of one database. A test reuses the
// schema of a finished one, because a migration takes longer than most tests.
type schemas struct {
	pool    *pgxpool.Pool
	fence   postgres.Fence
	created atomic.Int64
	unused  chan string
}

func newSchemas(pool *pgxpool.Pool) *schemas {
	return &schemas{pool: pool, unused: make(chan string, 100)}
}

func (s *schemas) open(t testing.TB) storagetest.Harness {
	t.Helper()
	options := s.take(t)
	reopen := func() storagetest.Storage { return must(postgres.New(s.pool, options))(t) }
	return storagetest.Harness{Storage: reopen(), Reopen: reopen}
}

// take returns the options for a migrated schema with empty tables.
func (s *schemas) take(t testing.TB) *postgres.Options {
	t.Helper()
	options := postgres.Options{Fence: s.fence}
	select {
	case options.Schema = <-s.unused:
	default:
		options.Schema = fmt.Sprintf(`schema "%d"`, s.created.Add(1))
		if err := must(postgres.New(s.pool, &options))(t).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		prefix, statements := pgx.Identifier{options.Schema}.Sanitize()+".canvasback_", ""
		for _, table := range strings.Fields("keys symbols folders trash trash_symbols exports key_usage links facts") {
			statements += `DELETE FROM ` + prefix + table + `;`
		}
		if _, err := s.pool.Exec(context.Background(), statements); err != nil {
			t.Error(err)
		}
		s.unused <- options.Schema
	})
	return &options
}
