package exports

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"example.com/canvasback/exports/internal/prefetch"
)

type result[T any] struct {
	value T
	err   error
}

// inParallel calls f for the index of each host, as many at a time as a batch has files in
// flight, and returns the results. After many timeouts in a row the others fail without a
// call.
func inParallel[T any](ctx context.Context, config prefetch.Config, hosts []string, f func(context.Context, int) (T, error)) []result[T] {
	results := make([]result[T], len(hosts))
	all, breakers := prefetch.NewBreaker(2*config.Files, nil), make(map[string]*prefetch.Breaker)
	var calls errgroup.Group
	calls.SetLimit(config.Files)
	for i, host := range hosts {
		if breakers[host] == nil {
			breakers[host] = prefetch.NewBreaker(config.Files*3/2, all)
		}
		breaker := breakers[host]
		calls.Go(func() error {
			r := &results[i]
			r.err = breaker.Call(config.Timeout, func() (err error) {
				defer recoverToError(&err)
				r.value, err = f(ctx, i)
				return err
			})
			if r.err == prefetch.ErrUnresponsive {
				r.err = prefetchError(r.err)
			}
			return nil
		})
	}
	calls.Wait()
	return results
}

// share calls f once for all callers with a key that wait at the same time. The call goes
// on when the context of one of them ends.
func share[T any](ctx context.Context, s *Service, key string, f func(ctx context.Context) (T, error)) (value T, err error) {
	result := s.flights.DoChan(key, func() (_ any, err error) {
		defer recoverToError(&err)
		return f(context.WithoutCancel(ctx))
	})
	select {
	case r := <-result:
		value, _ = r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

func prefetchError(err error) error {
	if errors.Is(err, prefetch.ErrUnresponsive) {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return openError(err, nil)
}
