package pgtest

import "testing"

// Server is a PostgreSQL server of a test's own, to be disturbed at will. Its
// methods fail the test if they cannot do what they say, and are for the
// goroutine of the test.
type Server struct {
	t testing.TB
	c *cluster
}

// Start starts a server that ends with the test. It never is the one that the
// environment names.
func Start(t testing.TB) *Server {
	t.Helper()
	c, err := newCluster()
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(func() {
		c.signal(resume) // if it runs
		c.close()
	})
	return &Server{t, c}
}

// DSN returns the URL of the server's database "postgres". It stays the same
// when the server is restarted.
func (s *Server) DSN() string { return s.c.address.String() }

// Stop ends the server in order, and all connections with it.
func (s *Server) Stop() {
	s.t.Helper()
	s.check(s.c.stop("fast"))
}

// Kill ends the server as a crash would: it recovers at the next start.
func (s *Server) Kill() {
	s.t.Helper()
	s.check(s.c.stop("immediate"))
}

// Restart starts the server, which it stops before if it runs.
func (s *Server) Restart() {
	s.t.Helper()
	if s.c.running() {
		s.Stop()
	}
	s.check(s.c.start())
}

// Pause freezes the server: connections stay open and get no answer.
func (s *Server) Pause() {
	s.t.Helper()
	s.check(s.c.signal(pause))
}

// Resume ends a pause.
func (s *Server) Resume() {
	s.t.Helper()
	s.check(s.c.signal(resume))
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}
