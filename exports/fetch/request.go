package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"example.com/canvasback/exports"
)

// acceptor returns nil if a file can be read from an answer.
type acceptor func(*http.Response) error

// begin makes one request, follows where it is redirected, and returns once
// the first byte of an answer is there or the answer is known to be empty.
func (o *Opener) begin(ctx context.Context, address *url.URL, header http.Header, accept acceptor) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	response, err := o.follow(ctx, address, header)
	if err != nil {
		cancel(err)
		return nil, err
	}
	s := newStream(ctx, cancel, response, o.idleTimeout)
	if err = accept(response); err == nil {
		err = s.peek()
	}
	if err == io.EOF && response.StatusCode == http.StatusOK {
		err = nil // an empty file is one, an empty rest is none
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// follow returns the first answer that is not a redirect.
func (o *Opener) follow(ctx context.Context, address *url.URL, header http.Header) (*http.Response, error) {
	for hops := 0; ; hops++ {
		response, err := o.request(ctx, address, header)
		if err != nil && hops > 0 {
			err = fmt.Errorf("redirected to %s: %w", exports.RedactURL(address.String()), err)
		}
		if err != nil || !isRedirect(response.StatusCode) {
			return response, err
		}
		response.Body.Close()
		if hops == o.maxRedirects {
			return nil, errors.New("too many redirects")
		}
		if address, err = redirected(response); err != nil {
			return nil, err
		}
	}
}

// request asks for one address, with no more header than it is given: nothing
// of an earlier hop, no cookie and no Referer.
func (o *Opener) request(ctx context.Context, address *url.URL, header http.Header) (*http.Response, error) {
	judged, err := o.policy.judge(address)
	if err != nil {
		return nil, err
	}
	request := &http.Request{Method: http.MethodGet, URL: judged, Header: header.Clone()}
	request.Header.Set("User-Agent", o.userAgent)
	request.Header.Set("Accept-Encoding", "identity")
	// RoundTrip, because a Client would follow redirects by its own rules.
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

// redirected returns where an answer redirects to. Its errors do not repeat
// the address, which may hold a secret.
func redirected(response *http.Response) (*url.URL, error) {
	from := response.Request.URL
	location := response.Header.Get("Location")
	if location == "" {
		return nil, fmt.Errorf("%s without a location", response.Status)
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("redirected to what is no address")
	}
	if from.Scheme == "https" && !strings.EqualFold(to.Scheme, "https") {
		return nil, fmt.Errorf("%w: redirected from https to %s", exports.ErrForbidden, to.Scheme)
	}
	return to, nil
}
