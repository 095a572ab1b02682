package exports

import (
	"context"
	"errors"
	"fmt"
	"io"

	"example.com/canvasback/exports/internal/prefetch"
)

// result is what a job of inParallel returned.
type result[T any] struct {
	value T
	err   error
}

// inParallel calls f for the index of each host, several at a time, and returns the
// results. After many timeouts in a row the others fail without a call.
func inParallel[T any](ctx context.Context, config prefetch.Config, hosts []string, f func(context.Context, int) (T, error)) []result[T] {
	jobs := make([]prefetch.Job[noContent[T]], len(hosts))
	for i, host := range hosts {
		jobs[i] = prefetch.Job[noContent[T]]{
			Host:        host,
			Concurrency: func() int { return config.Files },
			Open: func(ctx context.Context) (noContent[T], error) {
				value, err := f(ctx, i)
				return noContent[T]{value}, err
			},
		}
	}
	queue := prefetch.New(ctx, config, jobs)
	defer queue.Close()
	results := make([]result[T], len(hosts))
	for i := range results {
		file, err := queue.Next(func() {})
		if errors.Is(err, prefetch.ErrUnresponsive) {
			err = prefetchError(err)
		}
		results[i] = result[T]{file.File.value, err}
	}
	return results
}

// noContent is a value as an empty [prefetch.File].
type noContent[T any] struct{ value T }

func (noContent[T]) Read([]byte) (int, error) { return 0, io.EOF }
func (noContent[T]) Close() error             { return nil }
func (noContent[T]) Length() int64            { return 0 }
func (noContent[T]) CanIdle() bool            { return true }

// prefetchError classifies the error of a prefetched file.
func prefetchError(err error) error {
	if errors.Is(err, prefetch.ErrUnresponsive) {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return openError(err, nil)
}
