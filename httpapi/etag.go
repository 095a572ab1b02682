package httpapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"example.com/canvasback/httpapi/internal/ranges"
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

// notModified reports whether If-None-Match matches the version, by weak
// comparison.
func notModified(header http.Header, version symbols.Version) bool {
	tags := ranges.ParseTags(header["If-None-Match"])
	return tags.Any || slices.ContainsFunc(tags.List, func(t ranges.Tag) bool { return parseTag(t.Opaque) == version })
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
	for _, tag := range tags.List {
		m.versions = append(m.versions, parseTag(tag.Opaque))
	}
}
