package exports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Resolve sets the exports of items that are not registered, if there is an
// [Options.Resolve], several at a time. The other functions of a batch do not call it.
func (s *Service) Resolve(ctx context.Context, items []BatchItem) {
	if s.options.Resolve == nil {
		return
	}
	missing := make(map[string][]*BatchItem) // by key
	var keys []string
	for i := range items {
		if item := &items[i]; item.Err == ErrNotFound {
			if missing[item.key] == nil {
				keys = append(keys, item.key)
			}
			missing[item.key] = append(missing[item.key], item)
		}
	}
	results := inParallel(ctx, s.prefetch, make([]string, len(keys)), func(ctx context.Context, i int) (BatchItem, error) {
		export, err := s.resolveOnce(ctx, keys[i], strings.TrimSpace(missing[keys[i]][0].SourceURL))
		if errors.Is(err, ErrTimeout) { // many in a row end the others
			return BatchItem{}, err
		}
		return BatchItem{Export: export, Err: err}, nil
	})
	for i, result := range results {
		if result.err != nil {
			result.value.Err = result.err
		}
		for _, item := range missing[keys[i]] {
			item.Export, item.Err = result.value.Export, result.value.Err
		}
	}
}

// resolveOnce shares a call among the requests for one key. It goes on when a request
// ends, and each waits for OpenTimeout even if the application ignores the context.
func (s *Service) resolveOnce(ctx context.Context, key, source string) (*Export, error) {
	wait, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, fmt.Errorf("%w: resolve", ErrTimeout))
	defer cancel()
	return share(wait, s, fmt.Sprintf("resolve %q %s", s.tenant, key), func(ctx context.Context) (*Export, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
		defer cancel()
		export, err := s.resolveSource(ctx, source)
		if errors.Is(err, ErrInvalid) { // in what the application returned
			err = fmt.Errorf("%w: resolve: %s", ErrFailed, err.Error())
		}
		return export, err
	})
}

func (s *Service) resolveSource(ctx context.Context, source string) (*Export, error) {
	resolved, err := s.options.Resolve(ctx, ResolveRequest{Source: source, Tenant: s.tenant})
	if notReady, ok := errors.AsType[*NotReadyError](err); ok {
		if notReady.RetryAfter <= 0 {
			return nil, &NotReadyError{5 * time.Second}
		}
		return nil, &NotReadyError{min(max(notReady.RetryAfter, time.Second), 24*time.Hour)}
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ErrNotFound
	case err != nil:
		return nil, openError(fmt.Errorf("resolve: %w", err), context.Cause(ctx))
	}
	r := Registration{SourceURL: source, ExportedURL: resolved.ExportedURL, FileName: &resolved.FileName}
	var export Export
	if resolved.Register {
		export, _, err = s.Register(ctx, r)
	} else {
		export, err = s.check(r)
	}
	return &export, err
}
