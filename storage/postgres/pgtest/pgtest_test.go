package pgtest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"
)

// connect opens a connection until the end of the test.
func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func count(t testing.TB, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const tables = `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`
	const named = `SELECT count(*) FROM pg_database WHERE datname = $1`

	outer := connect(t, pgtest.Database(t))
	_, err := outer.Exec(t.Context(), `CREATE TABLE mine (id bigint)`)
	is.NoErr(err)

	var name string
	t.Run("another", func(t *testing.T) {
		is := is.New(t)
		inner := connect(t, pgtest.Database(t))
		is.Equal(count(t, inner, tables), 0) // empty
		name = inner.Config().Database
		is.Equal(count(t, outer, named, name), 1) // on the same server
	})
	is.Equal(count(t, outer, named, name), 0) // dropped with its test
	is.True(count(t, outer, tables) > 0)      // the other one stays
}

func TestServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := pgtest.Start(t)
	conn := connect(t, server.DSN())
	_, err := conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 1 AS id`)
	is.NoErr(err)

	for _, end := range []func(){server.Stop, server.Kill} {
		end()
		_, err = conn.Exec(t.Context(), `SELECT 1`)
		is.True(err != nil) // the connection is broken
		_, err = pgx.Connect(t.Context(), server.DSN())
		is.True(err != nil) // nobody listens

		server.Restart()
		conn = connect(t, server.DSN())
		is.Equal(count(t, conn, `SELECT count(*) FROM kept`), 1) // data and address stay
	}
	server.Restart() // while it runs
	conn = connect(t, server.DSN())

	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = pgx.Connect(ctx, server.DSN())
	is.True(err != nil) // no answer to a new connection
	answer := make(chan error, 1)
	go func() { answer <- conn.Ping(t.Context()) }()
	select {
	case <-answer:
		t.Error("a paused server answers")
	case <-time.After(100 * time.Millisecond):
	}
	server.Resume()
	is.NoErr(<-answer) // it goes on where it was
	server.Pause()     // a server may end so
}

// startAndWait makes a run of the test binary tell where its server is and
// wait to be killed.
const startAndWait = "CANVASBACK_PGTEST_START_AND_WAIT"

func TestServer_endsWithItsProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(startAndWait) != "" {
		fmt.Println("server:", pgtest.Start(t).DSN())
		io.Copy(io.Discard, os.Stdin)
		return
	}
	is := is.New(t)
	child := exec.Command(os.Args[0], "-test.run=^TestServer_endsWithItsProcess$", "-test.v")
	child.Env = append(os.Environ(), startAndWait+"=yes")
	_, err := child.StdinPipe() // never closed
	is.NoErr(err)
	output, err := child.StdoutPipe()
	is.NoErr(err)
	is.NoErr(child.Start())
	var dsn string
	for dsn == "" {
		var line string
		_, err := fmt.Fscanln(output, &line, &dsn)
		if err == io.EOF {
			t.Skip("the other process has no server")
		}
		if !strings.HasPrefix(line, "server:") {
			dsn = ""
		}
	}
	conn := connect(t, dsn)
	var dir string
	is.NoErr(conn.QueryRow(t.Context(), `SHOW data_directory`).Scan(&dir))
	_, err = os.Stat(dir)
	is.NoErr(err)

	is.NoErr(child.Process.Kill())
	child.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(dir)
		if os.IsNotExist(err) {
			break // the last thing to be done
		}
		if time.Now().After(deadline) {
			t.Fatal("the server outlives its process")
		}
	}
	is.True(conn.Ping(t.Context()) != nil) // stopped
}
