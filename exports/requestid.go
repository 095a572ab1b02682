package exports

import "context"

type requestIDKey struct{}

// WithRequestID returns a context with the id of the request on whose behalf files
// are opened. Openers log it.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id set by [WithRequestID], or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
