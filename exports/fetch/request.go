package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.com/canvasback/exports"
)

// followRedirects returns the first response that is not a redirect. If none are
// followed, a redirect is a response like any other.
func (o *Opener) followRedirects(ctx context.Context, method string, u *url.URL, header http.Header) (*http.Response, error) {
	signed := o.options.Sign != nil
	var from *url.URL
	for redirects := 0; ; redirects++ {
		checked, err := o.policy.checkURL(u)
		var response *http.Response
		if err == nil {
			signed = signed && (from == nil || checked.Scheme == from.Scheme && checked.Host == from.Host)
			response, err = o.roundTrip(ctx, method, checked, header, signed)
		}
		if err != nil && redirects > 0 {
			err = fmt.Errorf("redirect to %s: %w", redact(u), err)
		}
		if err != nil || o.options.MaxRedirects == 0 || !isRedirect(response.StatusCode) {
			return response, err
		}
		response.Body.Close()
		if redirects == o.options.MaxRedirects {
			return nil, fmt.Errorf("stopped after %d redirects", redirects)
		}
		if u, err = redirectURL(checked, response); err != nil {
			return nil, err
		}
		from = checked
	}
}

// loopID names this library in the headers User-Agent and CDN-Loop (RFC 8586). Package
// httpapi rejects requests that have the latter on the routes of links.
const loopID = "canvasback"

// roundTrip sends one request to a checked URL, with the given header fields and
// credentials only: no Referer, no cookies and nothing from an earlier hop. It does
// not use http.Client, which follows redirects by rules of its own.
func (o *Opener) roundTrip(ctx context.Context, method string, u *url.URL, header http.Header, signed bool) (*http.Response, error) {
	target := *u
	request := (&http.Request{Method: method, URL: &target, Header: header.Clone()}).WithContext(ctx)
	request.Header.Set("User-Agent", o.options.UserAgent)
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("CDN-Loop", loopID)
	if o.options.Traceparent != nil {
		if parent := o.options.Traceparent(ctx); parent != "" {
			request.Header.Set("Traceparent", parent)
		}
	}
	if signed {
		if err := o.options.Sign(request); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
		if request.URL.Scheme != u.Scheme || request.URL.Host != u.Host {
			return nil, errors.New("sign request: Sign has changed the host")
		}
	}
	o.stats.attempts.Add(1)
	return o.transport.RoundTrip(request)
}

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// redirectURL returns the target of a redirect of from. Its errors do not contain the
// target, which may hold secrets.
func redirectURL(from *url.URL, response *http.Response) (*url.URL, error) {
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
	return o.options.MaxBytes > 0 && size > o.options.MaxBytes
}
