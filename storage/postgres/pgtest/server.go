package pgtest

import "testing"

// Server is a private PostgreSQL server of one test. Its methods fail the test
// on an error, and must be called from the goroutine of the test.
type Server struct {
	t testing.TB
	c *cluster
}

// Start starts a private server, which is removed at the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, (*cluster).initialize)
}

func start(t testing.TB, initialize func(*cluster) error) *Server {
	t.Helper()
	c, err := startCluster(initialize)
	if err != nil {
		skipOrFail(t, err)
	}
	t.Cleanup(func() {
		c.signal("CONT") // fails if the server is stopped
		c.close()
	})
	return &Server{t, c}
}

// DSN returns the URL of the database "postgres". A restart does not change it.
func (s *Server) DSN() string { return s.c.url.String() }

// Stop shuts the server down in order and closes all connections.
func (s *Server) Stop() {
	s.t.Helper()
	s.check(s.c.stop("fast"))
}

// Kill stops the server without a shutdown, so that it recovers at its next
// start. It ends a pause, because a frozen server does not stop.
func (s *Server) Kill() {
	s.t.Helper()
	s.c.signal("CONT") // fails if the server is stopped
	s.check(s.c.stop("immediate"))
}

// Restart starts the server, after stopping it if it runs.
func (s *Server) Restart() {
	s.t.Helper()
	s.check(s.c.start())
}

// Pause freezes the server: connections stay open, but get no response.
func (s *Server) Pause() {
	s.t.Helper()
	s.check(s.c.signal("STOP"))
}

// Resume ends a pause.
func (s *Server) Resume() {
	s.t.Helper()
	s.check(s.c.signal("CONT"))
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}

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
