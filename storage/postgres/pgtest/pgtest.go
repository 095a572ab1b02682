// Package pgtest provides PostgreSQL servers for the tests of this module. It
// has no compatibility promise: do not import it from another module.
//
// [Database] uses the server that CANVASBACK_TEST_POSTGRES names, by the URL of
// a role that may create databases:
//
//	CANVASBACK_TEST_POSTGRES=postgres://postgres:secret@localhost:5432/postgres
//
// If the variable is not set, each test process starts a private server from
// the PostgreSQL programs of this machine. The server stops when the process
// ends, even if it is killed. Without such programs tests are skipped, or fail
// if CI=true.
//
// [Start] always starts a private server, for tests that stop or freeze it, and
// [StartPair] starts one with a synchronous standby.
package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const serverVariable = "CANVASBACK_TEST_POSTGRES"

// Database returns the URL of a new, empty database, which is dropped at the
// end of the test. Callers can append parameters, such as "&search_path=name".
func Database(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	name := "canvasback_test_" + strings.ToLower(rand.Text())
	operator.execute(t, server, `CREATE DATABASE `+name+` TEMPLATE template0 ENCODING 'UTF8'`)
	t.Cleanup(func() { operator.execute(t, server, `DROP DATABASE `+name+` WITH (FORCE)`) })
	database := server
	database.Path, database.RawQuery = "/"+name, cmp.Or(server.RawQuery, "application_name=canvasback_test")
	return database.String()
}

// serverURL returns the URL of the server that the tests of this process share.
func serverURL(t testing.TB) url.URL {
	t.Helper()
	if text := os.Getenv(serverVariable); text != "" {
		server, err := url.Parse(text)
		if err != nil || server.Host == "" {
			t.Fatalf("pgtest: %s must be a URL", serverVariable)
		}
		return *server
	}
	c, err := sharedCluster()
	if err != nil {
		skipOrFail(t, err)
	}
	return c.url
}

// sharedCluster starts the server of this process, which its watchdog stops
// after this process has ended.
var sharedCluster = sync.OnceValues(func() (*cluster, error) { return startCluster((*cluster).initialize) })

// skipOrFail ends a test that has no server.
func skipOrFail(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoPrograms) && os.Getenv("CI") != "true" {
		t.Skipf("pgtest: %v; set %s to use a server", err, serverVariable)
	}
	t.Fatalf("pgtest: %v", err)
}

// operator creates and drops databases. Its connection stays open until the process ends,
// because the server starts a process for each.
var operator session

// session is a connection to a server, which executes one statement at a time.
type session struct {
	mu   sync.Mutex
	conn *pgx.Conn // nil before the first statement
}

func (s *session) execute(t testing.TB, server url.URL, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // t.Context() has ended in a cleanup
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.conn == nil || s.conn.IsClosed() {
		s.conn, err = pgx.Connect(ctx, server.String())
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, statement)
	}
	if err == nil { // a slow write has left a goroutine
		err = s.conn.PgConn().SyncConn(ctx)
	}
	if err != nil {
		t.Fatalf("pgtest: %s: %v", statement, err)
	}
}
