package httpapi

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// The headers that carry keys, in canonical form.
const (
	headerAdminKey = "X-Admin-Key"
	headerAPIKey   = "X-Api-Key"
)

// withoutKeys returns the header without keys, and whether it has some. It does not
// modify header.
func withoutKeys(header http.Header) (_ http.Header, hasKeys bool) {
	if header[headerAPIKey] == nil && header[headerAdminKey] == nil {
		return header, false
	}
	header = maps.Clone(header)
	delete(header, headerAPIKey)
	delete(header, headerAdminKey)
	return header, true
}

// keyValues are the values of the key headers of a request, and of the parameter token
// in its URL.
type keyValues struct{ client, admin, token []string }

// credentials returns the keys of a request. It is a function, because package fmt prints
// the fields of structs.
type credentials func() keyValues

type credentialsKey struct{}

// newCredentials returns the credentials in the header of a request and, with the given
// tokens, in its URL. Those in its context, which were hidden before, stand in for absent ones.
func newCredentials(r *http.Request, tokens []string) credentials {
	values := keyValues{r.Header[headerAPIKey], r.Header[headerAdminKey], tokens}
	if hidden, ok := r.Context().Value(credentialsKey{}).(credentials); ok {
		before := hidden()
		if values.client == nil {
			values.client = before.client
		}
		if values.admin == nil {
			values.admin = before.admin
		}
		if values.token == nil {
			values.token = before.token
		}
	}
	return func() keyValues { return values }
}

// HideKeys returns a handler that calls next with a clone of the request, whose header
// has neither x-api-key nor x-admin-key, and whose URL, if it is one of an image or of
// changes, has no page token. An [API] behind it finds them in the context.
//
// Put it in front of middleware that logs the headers of requests, as gin.Recovery does
// when a download is aborted.
func HideKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, tokens := cutToken(r)
		header, hasKeys := withoutKeys(r.Header)
		ctx := context.WithValue(r.Context(), credentialsKey{}, newCredentials(r, tokens))
		if hasKeys { // the call may have verified another key
			ctx = context.WithValue(ctx, callKey{}, nil)
		}
		inner := shown.WithContext(ctx)
		inner.Header = header
		next.ServeHTTP(w, inner)
		r.Pattern = inner.Pattern
	})
}

// cutToken returns a request without the parameter token, and the values of that if the
// request reads. A browser cannot set a header for an image or an EventSource; on other
// routes the parameter means nothing.
func cutToken(r *http.Request) (*http.Request, []string) {
	isImage := strings.HasSuffix(r.URL.Path, "/image") && strings.Contains(r.URL.Path, "/symbol/symbols/")
	if !isImage && !strings.HasSuffix(r.URL.Path, "/symbol/changes") {
		return r, nil
	}
	var values, others []string
	for _, p := range parseQuery(r.URL.RawQuery) {
		if p.name != "token" {
			others = append(others, p.raw)
			continue
		}
		value, _ := url.QueryUnescape(p.value) // "" if it is malformed, which is no token either
		values = append(values, value)
	}
	if values == nil {
		return r, nil
	}
	inner := r.WithContext(r.Context())
	inner.URL = new(*r.URL)
	inner.URL.RawQuery = strings.Join(others, "&")
	inner.RequestURI, _, _ = strings.Cut(r.RequestURI, "?")
	if len(others) > 0 {
		inner.RequestURI += "?" + inner.URL.RawQuery
	}
	inner.Form, inner.PostForm = nil, nil // may have it too
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return inner, values
	}
	return inner, nil // such as a preflight
}
