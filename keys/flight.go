package keys

import (
	"context"
	"sync"
	"time"
)

// flights let concurrent checks of one digest share a read of the store.
type flights struct {
	mu  sync.Mutex
	all map[Digest]*flight // the latest one of each digest
}

// flight is a read that somebody waits for.
type flight struct {
	epoch int64
	done  chan struct{} // closed when found and err are set
	found *entry
	err   error
}

// join returns the flight for a digest, and whether the caller is to carry it
// out. One that is under way will do only if it began under the same epoch:
// its outcome is then what the cache would hold.
func (f *flights) join(digest Digest, epoch int64) (joined *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if joined := f.all[digest]; joined != nil && joined.epoch == epoch {
		return joined, false
	}
	joined = &flight{epoch: epoch, done: make(chan struct{})}
	if f.all == nil {
		f.all = make(map[Digest]*flight)
	}
	f.all[digest] = joined
	return joined, true
}

// land ends a flight with its outcome.
func (f *flights) land(digest Digest, landed *flight) {
	f.mu.Lock()
	if f.all[digest] == landed {
		delete(f.all, digest)
	}
	f.mu.Unlock()
	close(landed.done)
}

// look finds out about a raw key that is not among the good ones. Without a
// lease it asks the store; under one it asks at most once at a time, and keeps
// the answer.
func (s *Service) look(ctx context.Context, raw string, digest Digest, under *lease) (*entry, error) {
	if under == nil {
		s.counts.uncached.Add(1)
		return s.find(ctx, raw, digest)
	}
	if e := s.unknown.get(&digest, under); e != nil {
		s.counts.hits.add(time.Now())
		return e, nil
	}
	s.counts.misses.Add(1)
	joined, first := s.flights.join(digest, under.epoch)
	if first {
		// The read is nobody's own: who leaves must not fail the others.
		go s.fly(context.WithoutCancel(ctx), raw, digest, under, joined)
	}
	select {
	case <-joined.done:
		return joined.found, joined.err
	case <-ctx.Done():
		return nil, storeError("find key", ctx.Err())
	}
}

// fly carries out a flight.
func (s *Service) fly(ctx context.Context, raw string, digest Digest, under *lease, f *flight) {
	defer s.flights.land(digest, f)
	defer recoverToError(&f.err)
	f.found, f.err = s.find(ctx, raw, digest)
	if f.err == nil {
		s.keep(digest, f.found, under)
	}
}

// keep puts what has been read under a lease into the cache it belongs to.
// Unknown digests have one of their own, so that a flood of them does not push
// out good keys.
func (s *Service) keep(digest Digest, e *entry, under *lease) {
	if !s.leases.hasEpoch(under.epoch) {
		return // it would never count
	}
	e.digest, e.epoch = digest, under.epoch
	if e.known {
		s.known.put(e)
	} else {
		s.unknown.put(e)
	}
}
