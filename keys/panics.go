package keys

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// In the goroutines of a Service no host can guard against what it has handed
// in: a store or a log that panics would end the process.

// guarded asks the store, and makes an error of its panic.
func guarded(ask func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", ErrUnavailable, reason, debug.Stack())
		}
	}()
	return ask()
}

// report writes to the log. If that panics, the default one is told.
func (s *Service) report(ctx context.Context, level slog.Level, message string, args ...any) {
	defer func() {
		if reason := recover(); reason != nil {
			defer func() { recover() }() // it may be the very same
			slog.Default().ErrorContext(ctx, "keys: panic in Options.Logger", "panic", reason)
		}
	}()
	s.log.Log(ctx, level, message, args...)
}
