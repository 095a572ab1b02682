package fetch

import "sync/atomic"

// Stats counts what an [Opener] has done since it was created.
type Stats struct {
	Attempts uint64 // requests to origin servers, redirects included
	Retries  uint64 // after a failed attempt
	Resumes  uint64 // of a file whose transfer was interrupted
}

type counters struct{ attempts, retries, resumes atomic.Uint64 }

// Stats returns the counters.
func (o *Opener) Stats() Stats {
	return Stats{o.stats.attempts.Load(), o.stats.retries.Load(), o.stats.resumes.Load()}
}
