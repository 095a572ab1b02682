package exports

import (
	"context"
	"io"
)

// What follows is replaced by [Link.Serve], and goes when package httpapi uses that.

type (
	ByteRange  = Section
	LinkReader = linkReader
)

func IsLost(err error) bool { return isLost(err) }

func (l *Link) Outdated() bool                                     { return l.outdated() }
func (l *Link) Renew(ctx context.Context) (*Link, error)           { return l.renew(ctx) }
func (l *Link) Reserve(n int64) (done func(sent int64), err error) { return l.reserve(n) }
func (l *Link) Items(ctx context.Context) ([]BatchItem, error)     { return l.items(ctx) }
func (l *Link) HasStrongModified() bool                            { return l.ModifiedStrong }
func (l *Link) Open(ctx context.Context, s ...Section) (*linkReader, error) {
	return l.open(ctx, s, func() error { return nil })
}

func (r *linkReader) WriteRange(w io.Writer, index int, flush func() error) error {
	r.onWait = func() { flush() }
	err := r.writeSection(w, index)
	if isLost(err) {
		r.link.outdate()
	}
	return err
}
