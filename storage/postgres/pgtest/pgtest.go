// Package pgtest gives tests a PostgreSQL. It is for the tests of this module,
// and may change with them.
//
// [Database] uses the server that the environment names, by a URL with the
// right to create databases:
//
//	CANVASBACK_TEST_POSTGRES=postgres://postgres:secret@localhost:5432/postgres
//
// Without one, it starts a private server from the PostgreSQL programs of this
// machine, one for each test process. The server ends with that process,
// however it ends. Where there are no such programs, tests are skipped; they
// fail if the environment says CI=true.
package pgtest

import (
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

// Variable is the environment variable that names a server.
const Variable = "CANVASBACK_TEST_POSTGRES"

// Database returns the URL of a new, empty database, which is dropped at the
// end of the test.
func Database(t testing.TB) string {
	t.Helper()
	address := server(t)
	name := "canvasback_test_" + strings.ToLower(rand.Text())
	execute(t, address, `CREATE DATABASE `+name+` TEMPLATE template0 ENCODING 'UTF8'`)
	t.Cleanup(func() { execute(t, address, `DROP DATABASE `+name+` WITH (FORCE)`) })
	database := address
	database.Path = "/" + name
	return database.String()
}

// server returns the address of the server that the tests of this process
// share.
func server(t testing.TB) url.URL {
	t.Helper()
	if text := os.Getenv(Variable); text != "" {
		address, err := url.Parse(text)
		if err != nil || address.Host == "" {
			t.Fatalf("pgtest: %s must be a URL", Variable)
		}
		return *address
	}
	c, err := shared()
	if err != nil {
		giveUp(t, err)
	}
	return c.address
}

// shared starts the server of this process. Nobody stops it: that is for its
// watchdog, when this process is gone.
var shared = sync.OnceValues(newCluster)

// giveUp ends a test that has no server.
func giveUp(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoPrograms) && os.Getenv("CI") != "true" {
		t.Skipf("pgtest: %v; set %s to use a server", err, Variable)
	}
	t.Fatalf("pgtest: %v", err)
}

// execute runs one statement on a connection of its own.
func execute(t testing.TB, address url.URL, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test has ended in its cleanup
	defer cancel()
	conn, err := pgx.Connect(ctx, address.String())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("pgtest: %s: %v", statement, err)
	}
}
