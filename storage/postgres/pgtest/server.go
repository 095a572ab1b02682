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
