package httpapi

import (
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

// withoutKeys returns the header without keys. It does not modify header, and returns
// it if it has none.
func withoutKeys(header http.Header) http.Header {
	if header[headerAPIKey] == nil && header[headerAdminKey] == nil {
		return header
	}
	header = maps.Clone(header)
	delete(header, headerAPIKey)
	delete(header, headerAdminKey)
	return header
}

// keyValues are the values of the key headers of a request, and of the parameter token
// in its URL.
type keyValues struct{ client, admin, token []string }

// credentials returns the keys of a request. It is a function, because package fmt prints
// the fields of structs.
type credentials func() keyValues

// newCredentials returns the credentials in a header and a URL.
func newCredentials(header http.Header, tokens []string) credentials {
	values := keyValues{header[headerAPIKey], header[headerAdminKey], tokens}
	return func() keyValues { return values }
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
		value, err := url.QueryUnescape(p.value)
		if err != nil {
			value = "" // is no token either
		}
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
