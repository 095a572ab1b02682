package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestStorage_modes holds the driver to its promises where a pooler keeps it
// from preparing statements, and where the host has chosen another isolation
// level than the usual one.
func TestStorage_modes(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"nothing prepared": "&default_query_exec_mode=exec&default_transaction_isolation=serializable",
		"simple protocol":  "&default_query_exec_mode=simple_protocol",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &schemas{pool: connect(t, pgtest.Database(t)+settings), empty: make(chan string, 100)}
			storagetest.Run(t, s.open)
		})
	}
}

// schemas are storages in one database. They are used again, because to make
// one takes longer than most tests.
type schemas struct {
	pool  *pgxpool.Pool
	made  atomic.Int64
	empty chan string
}

func (s *schemas) open(t testing.TB) storagetest.Harness {
	t.Helper()
	options := s.take(t)
	again := func() storagetest.Storage { return postgres.New(s.pool, options) }
	return storagetest.Harness{Storage: again(), Reopen: again}
}

// take returns the options for an empty schema that has its tables.
func (s *schemas) take(t testing.TB) *postgres.Options {
	t.Helper()
	var options postgres.Options
	select {
	case options.Schema = <-s.empty:
	default:
		options.Schema = fmt.Sprintf(`schema "%d"`, s.made.Add(1))
		if err := postgres.New(s.pool, &options).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		schema := pgx.Identifier{options.Schema}.Sanitize()
		_, err := s.pool.Exec(context.Background(), `
			TRUNCATE `+schema+`.canvasback_keys;
			TRUNCATE `+schema+`.canvasback_folders CASCADE;
			TRUNCATE `+schema+`.canvasback_exports`)
		if err != nil {
			t.Error(err)
		}
		s.empty <- options.Schema
	})
	return &options
}
