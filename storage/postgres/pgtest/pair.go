package pgtest

import "testing"

// primarySettings make commits on the primary of a pair wait for its standby. Both servers
// have them but the last line. They shorten the waits of a standby that has lost its primary.
const primarySettings = `
synchronous_commit = on
wal_retrieve_retry_interval = 100ms
wal_receiver_status_interval = 1s
synchronous_standby_names = 'canvasback_standby'
`

// Pair is a primary and its synchronous standby, two private servers of one test.
// Commits on the primary wait for the standby, whether it runs or not. The standby waits
// for none once it is promoted.
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
		return c.configure(primarySettings)
	})
	p := &Pair{primary, start(t, primary.c.copyTo)}
	var s session
	s.execute(t, primary.c.url, `SELECT pg_logical_emit_message(true, '', '')`) // waits until the standby follows
	s.conn.Close(t.Context())
	return p
}

// copyTo creates the data directory of a standby of a running primary.
func (c *cluster) copyTo(standby *cluster) error {
	source := c.url
	query := source.Query()
	query.Set("application_name", "canvasback_standby")
	source.RawQuery = query.Encode()
	standby.url = c.url
	err := standby.run("pg_basebackup",
		"--dbname", source.String(), "--pgdata", standby.data(),
		"--wal-method", "stream", "--checkpoint", "fast", "--no-sync", "--no-manifest",
		"--write-recovery-conf",
	)
	if err != nil {
		return err
	}
	return standby.configure("synchronous_standby_names = ''\n")
}

// DSN returns the URL of the database "postgres" on both servers, in the given
// order.
func (p *Pair) DSN(first, second *Server) string {
	both := first.c.url
	both.Host += "," + second.c.url.Host
	return both.String()
}

// Promote makes the standby a primary, whatever the primary does, and waits until
// it accepts writes. It does not stop the primary.
func (p *Pair) Promote() {
	p.Standby.t.Helper()
	p.Standby.check(p.Standby.c.run("pg_ctl", "--pgdata", p.Standby.c.data(), "--wait", "promote"))
}
