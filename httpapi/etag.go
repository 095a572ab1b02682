package httpapi

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"example.com/canvasback/httpapi/internal/ranges"
	"example.com/canvasback/symbols"
)

// cacheControlRevalidate allows a client to cache a response, and to use it only
// after revalidation.
const cacheControlRevalidate = "private, no-cache"

// tag is the content of an ETag (RFC 9110, section 8.8.3).
type tag struct {
	version symbols.Version
	view    string // of the resource, such as a page of a list; empty by default
	gzip    bool
}

// imageView is the view of a symbol's image.
const imageView = "image"

// viewOf returns the view of a list that a request asks for. It depends on
// everything that the response shows, including its Link.
func viewOf(q query, p page, fields fieldSet) string {
	if p == (page{}) && fields == 0 {
		return ""
	}
	hash := fnv.New64a()
	fmt.Fprintln(hash, p.limit, p.after, fields)
	if p.limit > 0 {
		for _, parameter := range q {
			fmt.Fprintln(hash, parameter.raw)
		}
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

// String returns a strong ETag.
func (t tag) String() string {
	text := `"` + strconv.FormatInt(int64(t.version), 36)
	if t.view != "" {
		text += "." + t.view
	}
	if t.gzip {
		text += ".gz"
	}
	return text + `"`
}

// volatile returns the ETag of a streamed list. The list starts at the version but
// may include later changes, so the ETag is unique. If the version is still current
// afterwards, the list includes none, and the ETag matches the version.
func (t tag) volatile() string {
	return strings.TrimSuffix(t.String(), `"`) + "-" + strconv.FormatUint(rand.Uint64(), 36) + `"`
}

// parseTag returns the tag with an opaque part, or one with version 0, which is
// never current.
func parseTag(opaque string) tag {
	text, _, _ := strings.Cut(opaque, "-")
	text, gzip := strings.CutSuffix(text, ".gz")
	text, view, hasView := strings.Cut(text, ".")
	version, err := strconv.ParseInt(text, 36, 64)
	if err != nil || strconv.FormatInt(version, 36) != text || hasView && view == "" {
		return tag{}
	}
	return tag{symbols.Version(version), view, gzip}
}

// notModified returns the ETag in If-None-Match that matches a version of a view,
// compressed or not, and whether there is one.
func notModified(header http.Header, version symbols.Version, view string) (string, bool) {
	tags := ranges.ParseTags(header["If-None-Match"])
	if tags.Any {
		return tag{version: version, view: view}.String(), true
	}
	for _, given := range tags.List {
		if t := parseTag(given.Opaque); t.version == version && t.view == view {
			return `"` + given.Opaque + `"`, true
		}
	}
	return "", false
}

// setTag sets the headers of a response with an ETag.
func setTag(w http.ResponseWriter, etag string) {
	setHeader(w, "Cache-Control", cacheControlRevalidate)
	setHeader(w, "Etag", etag)
}

// sendNotModified responds 304 to a client that has the ETag.
func sendNotModified(w http.ResponseWriter, etag string) error {
	setTag(w, etag)
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// ifMatch is the part of an endpoint's input that comes from If-Match.
type ifMatch struct {
	versions []symbols.Version // empty if the header is absent or *
}

// readHeader also accepts weak tags, because proxies that compress weaken ours.
// Version 0 is never current, so a header without our tags matches nothing.
func (m *ifMatch) readHeader(header http.Header) {
	lines := header["If-Match"]
	if lines == nil {
		return
	}
	tags := ranges.ParseTags(lines)
	if tags.Any {
		return
	}
	m.versions = []symbols.Version{0}
	for _, given := range tags.List {
		if t := parseTag(given.Opaque); t.view == "" {
			m.versions = append(m.versions, t.version)
		}
	}
}
