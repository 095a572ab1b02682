package exports

import (
	"net/url"
	"strings"
)

const maxRedacted = 200 // bytes

// RedactURL returns rawURL for a log: without user info, query and fragment,
// which often hold secrets, and cut to 200 bytes. It returns "[invalid URL]" if rawURL
// does not parse.
func RedactURL(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || strings.Contains(u.Opaque, "@") { // as in user:password@host
		return "[invalid URL]"
	}
	opaque := strings.ReplaceAll(u.Opaque, " ", "%20") // as in Path, so that a list of URLs can be read
	u = &url.URL{Scheme: u.Scheme, Opaque: opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	text := u.String()
	if len(text) > maxRedacted {
		return strings.ToValidUTF8(text[:maxRedacted], "") + "..."
	}
	return text
}
