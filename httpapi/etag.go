package httpapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"example.com/canvasback/symbols"
)

// cacheControlRevalidate allows a client to cache a response, and to use it only
// after revalidation.
const cacheControlRevalidate = "private, no-cache"

// taggedBody is a JSON body with an ETag.
type taggedBody interface {
	version() symbols.Version
	appendJSON(dst []byte) []byte
}

func (a *API) sendTagged(w http.ResponseWriter, r *http.Request, status int, body taggedBody) error {
	w.Header().Set("ETag", entityTag(body.version()))
	a.sendJSON(w, r, status, body.appendJSON(nil))
	return nil
}

// sendNotModified responds 304 to a client that has the version.
func sendNotModified(w http.ResponseWriter, version symbols.Version) error {
	w.Header().Set("Cache-Control", cacheControlRevalidate)
	w.Header().Set("ETag", entityTag(version))
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// getEndpoint returns an endpoint that responds with what load returns. A client
// that has the current version gets 304, which costs a read of the version only.
func (a *API) getEndpoint(kind versionKind, load func(ctx context.Context, id int64) (taggedBody, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r)
		if err != nil {
			return err
		}
		ctx, cancel := a.storeContext(r)
		defer cancel()
		if r.Header["If-None-Match"] != nil {
			version, err := a.versions.get(ctx, versionKey{kind, id})
			if err != nil {
				return err
			}
			if notModified(r.Header, version) {
				return sendNotModified(w, version)
			}
		}
		body, err := load(ctx, id)
		if err != nil {
			return err
		}
		w.Header().Set("Cache-Control", cacheControlRevalidate)
		return a.sendTagged(w, r, http.StatusOK, body)
	}
}

// entityTag returns the strong ETag (RFC 9110, section 8.8.3) of a version.
func entityTag(version symbols.Version) string {
	return `"` + strconv.FormatInt(int64(version), 36) + `"`
}

// volatileTag returns the ETag of a streamed list. The list starts at version but
// may include later changes, so the tag is unique. If version is still current
// afterwards, the list includes none, and the tag matches version.
func volatileTag(version symbols.Version) string {
	return strings.TrimSuffix(entityTag(version), `"`) + "-" + strconv.FormatUint(rand.Uint64(), 36) + `"`
}

// parseTag returns the version of the opaque part of an ETag, or 0, which is never
// current.
func parseTag(opaque string) symbols.Version {
	text, _, _ := strings.Cut(opaque, "-")
	version, err := strconv.ParseInt(text, 36, 64)
	if err != nil || strconv.FormatInt(version, 36) != text {
		return 0
	}
	return symbols.Version(version)
}

// tagMatcher is the value of an If-Match or If-None-Match header (RFC 9110,
// sections 13.1.1 and 13.1.2).
type tagMatcher struct {
	wildcard bool // the value is *
	strong   []symbols.Version
	weak     []symbols.Version
}

// parseTags parses the lines of a header up to the first malformed tag.
func parseTags(lines []string) tagMatcher {
	var m tagMatcher
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		m.wildcard = true
		return m
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		opaque, isWeak := strings.CutPrefix(rest, "W/")
		opaque, quoted := strings.CutPrefix(opaque, `"`)
		opaque, after, closed := strings.Cut(opaque, `"`)
		if !quoted || !closed {
			return m
		}
		if isWeak {
			m.weak = append(m.weak, parseTag(opaque))
		} else {
			m.strong = append(m.strong, parseTag(opaque))
		}
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] != ',' {
			return m
		}
	}
}

// notModified reports whether If-None-Match matches the version, by weak
// comparison.
func notModified(header http.Header, version symbols.Version) bool {
	m := parseTags(header["If-None-Match"])
	return m.wildcard || slices.Contains(m.strong, version) || slices.Contains(m.weak, version)
}

// ifMatch is the part of an endpoint's input that comes from If-Match.
type ifMatch struct {
	versions []symbols.Version // empty if the header is absent or *
}

// readHeader uses strong comparison: weak tags match nothing. Version 0 is never
// current, so a header without strong tags matches nothing either.
func (m *ifMatch) readHeader(header http.Header) {
	lines := header["If-Match"]
	if lines == nil {
		return
	}
	if tags := parseTags(lines); !tags.wildcard {
		m.versions = append(tags.strong, 0)
	}
}
