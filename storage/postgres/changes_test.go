package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres/pgtest"
)

func digestOf(name string) keys.Digest { return sha256.Sum256([]byte(name)) }

// insertKeys returns a statement that inserts keys with the names "from" to "to".
func insertKeys(from, to int) string {
	return fmt.Sprintf(`
		INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
		SELECT n, '', '', sha256(n::text::bytea), true, now(), now()
		FROM generate_series(%d, %d) AS n;`, from, to)
}

// While a change is not committed, neither its epoch nor its digests are visible,
// and later changes wait.
func TestChanges_LogInOrderOfCommits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	store := migrate(t, pool).Keys()
	start := must(store.Changes(t.Context(), 0))(t)
	digests := func() []keys.Digest {
		is.Helper()
		changes := must(store.Changes(t.Context(), start.Epoch))(t)
		is.True(changes.Complete)
		return changes.Digests
	}
	first := begin(t, pool, insertKeys(1, 1))
	is.Equal(len(digests()), 0)
	second := make(chan error)
	go func() { second <- errorOf(pool.Exec(context.WithoutCancel(t.Context()), insertKeys(2, 2))) }()
	eventually(t, 1, waiting(t, pool))
	is.Equal(len(digests()), 0)
	must(first.Exec(t.Context(), insertKeys(3, 3)))(t)
	is.NoErr(first.Commit(t.Context()))
	is.NoErr(<-second)
	is.Equal(digests(), []keys.Digest{digestOf("1"), digestOf("3"), digestOf("2")})
}
