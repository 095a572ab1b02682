package files

import (
	"io/fs"
	"net/url"
	"strings"
)

// origin is what stands before the path of an address, in one form.
type origin struct {
	scheme, host, port string
}

func originOf(address *url.URL) origin {
	o := origin{
		scheme: strings.ToLower(address.Scheme),
		host:   strings.TrimSuffix(strings.ToLower(address.Hostname()), "."),
		port:   address.Port(),
	}
	if o.port == "" {
		o.port = map[string]string{"http": "80", "https": "443"}[o.scheme]
	}
	return o
}

// segmentsOf returns the path of an address, cut at its slashes and then
// unescaped: an escaped slash is part of a segment. There is at least one.
func segmentsOf(address *url.URL) []string {
	segments := strings.Split(strings.TrimPrefix(address.EscapedPath(), "/"), "/")
	for i, segment := range segments {
		if unescaped, err := url.PathUnescape(segment); err == nil { // EscapedPath is well-formed
			segments[i] = unescaped
		}
	}
	return segments
}

// join returns the name of a file for an [fs.FS], or the empty string if there
// is none.
func join(segments []string) string {
	for _, segment := range segments {
		if segment == "." || strings.ContainsAny(segment, "/\\\x00") {
			return ""
		}
	}
	name := strings.Join(segments, "/")
	if !fs.ValidPath(name) {
		return ""
	}
	return name
}
