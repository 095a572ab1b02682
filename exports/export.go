package exports

import (
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Export is the registration of an exported file. Times are UTC, truncated to
// the millisecond.
type Export struct {
	ID           int64  // positive, ascending, never reused
	Tenant       string // see [Service.Tenant]
	SourceURL    string // lookup key, unique for a tenant
	ExportedURL  string // of the exported file
	FileName     string // as registered, empty if none
	RegisteredBy string // who registered it last, such as "key 7", or "anyone" without keys; empty: the application
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Filter selects the exports of a list. The zero value selects all.
type Filter struct {
	Contains string  // only exports whose SourceURL contains it, as bytes
	Tenant   *string // only those of this tenant, unless it is nil
}

// Range selects the first records of a list with ids above After. The zero value
// selects all records.
type Range struct {
	After int64 // an id, which need not exist; 0: from the start
	Limit int   // the maximum number of records; 0 or less: no limit
}

// Page is a part of a list of exports, ids ascending.
type Page struct {
	Exports []Export
	More    bool // exports with higher ids follow
}

// linkToken matches the token of a download link, whose URL may be relative.
var linkToken = regexp.MustCompile(`((?:^|/)links/)[\w-]{43}`)

// RedactURL returns rawURL for a log: without user info, query and fragment, which often
// hold secrets, and without the token of a download link. It cuts a longer result to 200
// bytes and "...", and returns "[invalid URL]" if rawURL does not parse.
func RedactURL(rawURL string) string {
	const most = 200
	u, err := url.Parse(strings.TrimSpace(rawURL))
	if err != nil || strings.Contains(u.Opaque, "@") { // as in user:password@host
		return "[invalid URL]"
	}
	redact := func(path string) string { return linkToken.ReplaceAllString(path, "${1}...") }
	opaque := redact(strings.ReplaceAll(u.Opaque, " ", "%20")) // as in Path, so that a list of URLs can be read
	path := redact(u.Path)
	// RawPath is ignored if it does not encode the path.
	text := (&url.URL{Scheme: u.Scheme, Opaque: opaque, Host: u.Host, Path: path, RawPath: u.RawPath}).String()
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
