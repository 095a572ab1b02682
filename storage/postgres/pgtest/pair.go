package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// pairSettings are the settings of both servers of a pair. They shorten the waits
// of a standby that has lost its primary.
const pairSettings = `
synchronous_commit = on
wal_retrieve_retry_interval = 100ms
wal_receiver_status_interval = 1s
`

// standbyName is the application_name of a standby.
const standbyName = "canvasback_standby"

// Pair is a primary and its synchronous standby, two private servers of one test.
// Commits on the primary wait for the standby; see [Pair.SetSynchronous].
type Pair struct {
	Primary, Standby *Server
}

// StartPair starts a pair, which is removed at the end of the test.
func StartPair(t testing.TB) *Pair {
	t.Helper()
	primary := start(t, func(c *cluster) error {
		if err := c.initialize(); err != nil {
			return err
		}
		return c.configure(pairSettings)
	})
	standby := start(t, primary.c.copyTo)
	p := &Pair{primary, standby}
	p.SetSynchronous(primary)
	p.waitSynchronous(t)
	return p
}

// copyTo creates the data directory of a standby of a running primary.
func (c *cluster) copyTo(standby *cluster) error {
	source := c.url
	query := source.Query()
	query.Set("application_name", standbyName)
	source.RawQuery = query.Encode()
	standby.url = c.url
	return standby.run("pg_basebackup",
		"--dbname", source.String(), "--pgdata", standby.data(),
		"--wal-method", "stream", "--checkpoint", "fast", "--no-sync", "--no-manifest",
		"--write-recovery-conf",
	)
}

// DSN returns the URL of the database "postgres" on both servers, in the given
// order.
func (p *Pair) DSN(first, second *Server) string {
	both := first.c.url
	both.Host += "," + second.c.url.Host
	return both.String()
}

// SetSynchronous makes commits on a server wait for a standby of the pair,
// whether there is one or not. A promoted standby does not wait for any.
func (p *Pair) SetSynchronous(server *Server) {
	p.Primary.t.Helper()
	execute(p.Primary.t, server.c.url, `ALTER SYSTEM SET synchronous_standby_names = '`+standbyName+`'`)
	execute(p.Primary.t, server.c.url, `SELECT pg_reload_conf()`)
}

// waitSynchronous waits until the primary waits for the standby.
func (p *Pair) waitSynchronous(t testing.TB) {
	t.Helper()
	const query = `
		SELECT count(*)
		FROM pg_stat_replication
		WHERE sync_state = 'sync' AND current_setting('synchronous_standby_names') <> ''`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Primary.DSN())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	for standbys := 0; standbys == 0; time.Sleep(5 * time.Millisecond) {
		if err := conn.QueryRow(ctx, query).Scan(&standbys); err != nil {
			t.Fatalf("pgtest: the standby does not become synchronous: %v", err)
		}
	}
}

// Promote makes the standby a primary, whatever the primary does, and waits until
// it accepts writes. It does not stop the primary.
func (p *Pair) Promote() {
	p.Standby.t.Helper()
	p.Standby.check(p.Standby.c.run("pg_ctl", "--pgdata", p.Standby.c.data(), "--wait", "promote"))
}
