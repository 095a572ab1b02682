package keys

import (
	"context"
	"sync"
	"time"
)

// flushTimeout bounds a write of the times of last use.
const flushTimeout = 5 * time.Second

// Run does what a Service does in the background: it keeps the lease under
// which checks may be answered from memory, and writes the times of last use.
// Start it once, beside the server, and wait for it before the store is
// closed. It ends when ctx does, after a last write, whose error it returns.
//
// Without Run, and whenever the store does not answer, every check reads the
// store. A store that goes away and comes back is logged once each time.
func (s *Service) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.keepLease(ctx) })
	defer running.Wait()
	return s.keepWriting(ctx)
}

// keepLease renews the lease on a beat, and at once when it has been ended.
func (s *Service) keepLease(ctx context.Context) {
	defer s.leases.end()
	beat := time.NewTicker(s.leases.duration / beatsOfLease)
	defer beat.Stop()
	for healthy := true; ; {
		err := s.leases.renew(ctx, s.store)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && healthy:
			s.log.WarnContext(ctx, "key store does not answer; every check asks it until it does", "error", err)
		case err == nil && !healthy:
			s.log.InfoContext(ctx, "key store answers again")
		}
		healthy = err == nil
		select {
		case <-beat.C:
		case <-s.leases.wanted:
		case <-ctx.Done():
			return
		}
	}
}

// keepWriting writes the times of last use every flush interval and at the
// end. What could not be written is kept for the next time.
func (s *Service) keepWriting(ctx context.Context) error {
	ticker := time.NewTicker(s.flushInterval)
	defer ticker.Stop()
	for healthy := true; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return s.flush(context.WithoutCancel(ctx))
		}
		err := s.flush(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && healthy:
			s.log.WarnContext(ctx, "times of last use could not be written; they are kept", "error", err)
		case err == nil && !healthy:
			s.log.InfoContext(ctx, "times of last use are written again")
		}
		healthy = err == nil
	}
}

// flush writes what is pending in one batch.
func (s *Service) flush(ctx context.Context) (err error) {
	defer recoverToError(&err)
	list := s.uses.pending()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := s.store.Touch(ctx, list); err != nil {
		return storeError("touch keys", err)
	}
	s.uses.written(list)
	return nil
}
