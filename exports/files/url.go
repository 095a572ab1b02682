package files

import (
	"cmp"
	"io/fs"
	"net/url"
	"strings"
)

// originOf returns the scheme, host and port of a URL in canonical form.
func originOf(u *url.URL) [3]string {
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return [3]string{scheme, host, cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[scheme])}
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
