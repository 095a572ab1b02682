package exports

import (
	"net/url"
	"strings"
)

// RedactURL returns rawURL for a log: without user info, query and fragment,
// which often hold secrets. It returns "[invalid URL]" if rawURL does not parse.
func RedactURL(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || strings.Contains(u.Opaque, "@") { // as in user:password@host
		return "[invalid URL]"
	}
	u = &url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return u.String()
}
