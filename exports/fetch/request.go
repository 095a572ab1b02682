package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"example.com/canvasback/exports"
)

// followRedirects returns the first response that is not a redirect.
func (o *Opener) followRedirects(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	for redirects := 0; ; redirects++ {
		response, err := o.roundTrip(ctx, u, header)
		if err != nil && redirects > 0 {
			err = fmt.Errorf("redirect to %s: %w", redact(u), err)
		}
		if err != nil || !isRedirect(response.StatusCode) {
			return response, err
		}
		response.Body.Close()
		if redirects == o.maxRedirects {
			return nil, fmt.Errorf("stopped after %d redirects", redirects)
		}
		if u, err = redirectURL(response); err != nil {
			return nil, err
		}
	}
}

// roundTrip sends one request with the given header fields only: no Referer, no
// cookies and nothing from an earlier hop. It does not use http.Client, which
// follows redirects by rules of its own.
func (o *Opener) roundTrip(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	u, err := o.policy.checkURL(u)
	if err != nil {
		return nil, err
	}
	request := &http.Request{Method: http.MethodGet, URL: u, Header: header.Clone()}
	request.Header.Set("User-Agent", o.userAgent)
	request.Header.Set("Accept-Encoding", "identity")
	return o.transport.RoundTrip(request.WithContext(ctx))
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirectURL returns the target of a redirect. Its errors do not contain the
// target, which may hold secrets.
func redirectURL(response *http.Response) (*url.URL, error) {
	from := response.Request.URL
	location := response.Header.Get("Location")
	if location == "" {
		return nil, fmt.Errorf("status %s without Location header", response.Status)
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("invalid Location header")
	}
	if from.Scheme == "https" && !strings.EqualFold(to.Scheme, "https") {
		return nil, fmt.Errorf("%w: redirect from https to %s", exports.ErrForbidden, to.Scheme)
	}
	return to, nil
}

func (o *Opener) tooLarge(size int64) bool {
	return o.maxBytes > 0 && size > o.maxBytes
}
