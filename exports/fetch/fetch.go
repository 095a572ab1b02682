package fetch

import (
	"context"
	"io"
	"net/url"
	"strings"

	"example.com/canvasback/exports"
)

var (
	_ exports.RangeOpener    = (*Opener)(nil)
	_ exports.AdaptiveOpener = (*Opener)(nil)
	_ exports.PrivateOpener  = (*Opener)(nil)
)

// Serves reports whether the scheme of u is http or https.
func (o *Opener) Serves(u *url.URL) bool {
	return strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https")
}

// IsPrivate implements [exports.PrivateOpener]: clients lack the credentials of
// [Options.Sign].
func (o *Opener) IsPrivate(*url.URL) bool { return o.options.Sign != nil }

// Check applies the URL policy to u, without DNS resolution. The error is an
// [exports.ForbiddenError].
func (o *Opener) Check(u *url.URL) error {
	_, err := o.policy.checkURL(u)
	return err
}

// Open implements [exports.Opener]. Its error also wraps the error of ctx if ctx
// has ended. The text of the error is for logs and contains redacted URLs.
//
// A failed Read of the Body returns an error of the same kind. It wraps
// [io.ErrUnexpectedEOF] if the file is truncated, and [exports.ErrTimeout] after
// an idle timeout.
func (o *Opener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	b, err := o.open(ctx, u, &body{size: -1, end: -1})
	if err != nil {
		return nil, err
	}
	file := b.file()
	file.Body = b
	return file, nil
}

// Stat implements [exports.RangeOpener]. It sends a GET request for the first
// byte, because presigned URLs reject HEAD requests.
func (o *Opener) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	b, err := o.open(ctx, u, &body{size: -1})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.file(), nil
}

// OpenRange implements [exports.RangeOpener]. Its errors are like those of Open.
func (o *Opener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	b, err := o.open(ctx, u, &body{pinned: true, size: r.Size, validator: r.Validator, offset: r.Offset, end: r.Offset + r.Length})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Concurrency implements [exports.AdaptiveOpener].
func (o *Opener) Concurrency(u *url.URL) int {
	o.hosts.mu.Lock()
	defer o.hosts.mu.Unlock()
	if l := o.hosts.loads[u.Host]; l != nil {
		return int(l.concurrency)
	}
	return initialConcurrency
}
