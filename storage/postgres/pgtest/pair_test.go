package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
)

func TestPair_CommitsWaitForStandby(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	began := time.Now()
	pair := pgtest.StartPair(t)
	t.Log("started in", time.Since(began))
	conn := connect(t, pair.Primary.DSN())
	standby := connect(t, pair.Standby.DSN())
	_, err := conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 1 AS id`)
	is.NoErr(err)
	_, err = standby.Exec(t.Context(), `CREATE TABLE other ()`)
	is.True(err != nil) // read-only

	for _, outage := range []struct{ begin, end func() }{
		{pair.Standby.Pause, pair.Standby.Resume},
		{pair.Standby.Stop, pair.Standby.Restart},
		{pair.Standby.Kill, pair.Standby.Restart},
	} {
		outage.begin()
		committed := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.WithoutCancel(t.Context()), `INSERT INTO kept VALUES (2)`)
			committed <- err
		}()
		select {
		case <-committed:
			t.Error("a commit does not wait for the standby")
		case <-time.After(200 * time.Millisecond):
		}
		outage.end()
		is.NoErr(<-committed)
	}

	pair.Promote()
	promoted := connect(t, pair.DSN(pair.Standby, pair.Primary)+"&target_session_attrs=read-write")
	is.Equal(count(t, promoted, `SELECT count(*) FROM kept`), 4) // all that was committed
	_, err = promoted.Exec(t.Context(), `INSERT INTO kept VALUES (3)`)
	is.NoErr(err)
	is.Equal(count(t, conn, `SELECT count(*) FROM kept`), 4) // the old primary still serves reads
	pair.Primary.Pause()
	_, err = promoted.Exec(t.Context(), `INSERT INTO kept VALUES (4)`)
	is.NoErr(err)
	pair.Primary.Resume()
	is.NoErr(conn.Ping(t.Context()))
	pair.Primary.Kill()
	_, err = pgx.Connect(t.Context(), pair.Primary.DSN())
	is.True(err != nil)
}
