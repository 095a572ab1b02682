package sqlite_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

func TestSchema_PreviousKeyEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := migrate(t, conn)
	_, err := db.Keys().Insert(t.Context(), keys.Key{Name: "key", Active: true})
	is.True(err != nil) // times are required
	now := time.UnixMilli(1)
	must(db.Keys().Insert(t.Context(), keys.Key{Name: "key", CreatedAt: now, UpdatedAt: now}))(t)
	for _, half := range []string{"previous_digest = zeroblob(32)", "previous_expires_at = 1"} {
		is.True(errorOf(conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET "+half)) != nil)
	}
	must(conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET previous_digest = zeroblob(32), previous_expires_at = 1"))(t)
}
