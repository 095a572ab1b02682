package pgtest_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// connect opens a connection that is closed at the end of the test.
func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// count runs a query for a number.
func count(t testing.TB, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	is.New(t).NoErr(conn.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

func TestDatabase_IsEmptyAndDroppedAfterTest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const countTables = `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`
	const countDatabases = `SELECT count(*) FROM pg_database WHERE datname = $1`

	outer := connect(t, pgtest.Database(t))
	must(outer.Exec(t.Context(), `CREATE TABLE mine (id bigint)`))(t)

	var name string
	t.Run("inner", func(t *testing.T) {
		is := is.New(t)
		inner := connect(t, pgtest.Database(t))
		is.Equal(count(t, inner, countTables), 0) // empty
		name = inner.Config().Database
		is.Equal(count(t, outer, countDatabases, name), 1) // on the same server
	})
	is.Equal(count(t, outer, countDatabases, name), 0) // dropped with its test
	is.True(count(t, outer, countTables) > 0)          // the outer test still has its own
}

// Tests append parameters to the URL, also if that of the given server has none.
func TestDatabase_TakesParameters(t *testing.T) {
	is := is.New(t)
	server := must(url.Parse(pgtest.Database(t)))(t)
	server.RawQuery = ""
	t.Setenv("CANVASBACK_TEST_POSTGRES", server.String())
	conn := connect(t, pgtest.Database(t)+"&search_path=mine")
	is.Equal(count(t, conn, `SELECT count(*) FROM pg_settings WHERE name = 'search_path' AND setting = 'mine'`), 1)
}

func TestServer_KeepsDataAndURL(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	server := pgtest.Start(t)
	conn := connect(t, server.DSN())
	must(conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 1 AS id`))(t)

	for _, stop := range []func(){server.Stop, server.Kill} {
		stop()
		is.True(errorOf(conn.Exec(t.Context(), `SELECT 1`)) != nil)     // the connection is broken
		is.True(errorOf(pgx.Connect(t.Context(), server.DSN())) != nil) // connection refused

		server.Restart()
		conn = connect(t, server.DSN())
		is.Equal(count(t, conn, `SELECT count(*) FROM kept`), 1) // same data, same URL
	}
	server.Restart() // also if it runs
	conn = connect(t, server.DSN())

	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	is.True(errorOf(pgx.Connect(ctx, server.DSN())) != nil) // a new connection gets no response
	ping := make(chan error, 1)
	go func() { ping <- conn.Ping(t.Context()) }()
	select {
	case <-ping:
		t.Error("a paused server responds")
	case <-time.After(100 * time.Millisecond):
	}
	server.Resume()
	is.NoErr(<-ping)
	server.Pause() // the cleanup also removes a paused server
}

// startAndWait makes a run of the test binary print the URL of its server and
// wait until it is killed.
const startAndWait = "CANVASBACK_PGTEST_START_AND_WAIT"

func TestServer_StopsWhenProcessIsKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv(startAndWait) != "" {
		fmt.Println("server:", pgtest.Start(t).DSN())
		io.Copy(io.Discard, os.Stdin)
		return
	}
	is := is.New(t)
	child := exec.Command(os.Args[0], "-test.run=^TestServer_StopsWhenProcessIsKilled$", "-test.v")
	child.Env = append(os.Environ(), startAndWait+"=yes")
	_, err := child.StdinPipe() // never closed
	is.NoErr(err)
	output := must(child.StdoutPipe())(t)
	is.NoErr(child.Start())
	var dsn string
	for dsn == "" {
		var line string
		_, err := fmt.Fscanln(output, &line, &dsn)
		if err == io.EOF {
			t.Skip("the child process has no server")
		}
		if !strings.HasPrefix(line, "server:") {
			dsn = ""
		}
	}
	conn := connect(t, dsn)
	var dir string
	is.NoErr(conn.QueryRow(t.Context(), `SHOW data_directory`).Scan(&dir))
	must(os.Stat(dir))(t)

	is.NoErr(child.Process.Kill())
	child.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(dir)
		if os.IsNotExist(err) {
			break // the last step of the watchdog
		}
		is.True(!time.Now().After(deadline))
	}
	is.True(conn.Ping(t.Context()) != nil) // the server is stopped
}

func TestPair_CommitsWaitForStandby(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	began := time.Now()
	pair := pgtest.StartPair(t)
	t.Log("started in", time.Since(began))
	conn := connect(t, pair.Primary.DSN())
	standby := connect(t, pair.Standby.DSN())
	must(conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 1 AS id`))(t)
	is.True(errorOf(standby.Exec(t.Context(), `CREATE TABLE other ()`)) != nil) // read-only

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
	must(promoted.Exec(t.Context(), `INSERT INTO kept VALUES (3)`))(t)
	is.Equal(count(t, conn, `SELECT count(*) FROM kept`), 4) // the old primary still serves reads
	pair.Primary.Pause()
	must(promoted.Exec(t.Context(), `INSERT INTO kept VALUES (4)`))(t)
	pair.Primary.Resume()
	is.NoErr(conn.Ping(t.Context()))
	pair.Primary.Kill()
	is.True(errorOf(pgx.Connect(t.Context(), pair.Primary.DSN())) != nil)
}
