package files

import (
	"io/fs"
	"net/url"
	"strings"
)

// origin is the scheme, host and port of a URL in canonical form.
type origin struct {
	scheme, host, port string
}

func originOf(u *url.URL) origin {
	o := origin{
		scheme: strings.ToLower(u.Scheme),
		host:   strings.TrimSuffix(strings.ToLower(u.Hostname()), "."),
		port:   u.Port(),
	}
	if o.port == "" {
		o.port = map[string]string{"http": "80", "https": "443"}[o.scheme]
	}
	return o
}

// pathSegments splits an escaped path at its slashes and then unescapes each
// segment, so a segment may contain an escaped slash. It returns at least one.
func pathSegments(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		if unescaped, err := url.PathUnescape(segment); err == nil { // EscapedPath is well-formed
			segments[i] = unescaped
		}
	}
	return segments
}

// joinSegments returns a file name for an [fs.FS], or the empty string if the
// segments are not a valid name.
func joinSegments(segments []string) string {
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
