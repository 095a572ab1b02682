package httpapi

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"example.com/canvasback/httpapi/internal/bodies"
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
	unique  uint64 // of an unsettled body, or where a page ends; else 0
}

// view returns the view that a request asks for. It depends on everything that the
// response shows, including its Link.
func (c *call) view(key bodies.Key) string {
	if key.Kind == bodies.Image {
		return "image"
	}
	if key.Range == (symbols.Range{}) && key.Fields == 0 {
		return ""
	}
	hash := fnv.New64a()
	fmt.Fprintln(hash, key.Range.Limit, key.Range.After, key.Fields)
	if key.Range.Limit > 0 {
		for _, parameter := range c.query() {
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
	if t.unique != 0 {
		text += "-" + strconv.FormatUint(t.unique, 36)
	}
	return text + `"`
}

// parseTag returns a given tag, weak or strong, or one with version 0, which is never
// current.
func parseTag(given string) tag {
	text, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(given, "W/"), `"`), "-")
	text, gzip := strings.CutSuffix(text, ".gz")
	text, view, hasView := strings.Cut(text, ".")
	version, err := strconv.ParseInt(text, 36, 64)
	if err != nil || strconv.FormatInt(version, 36) != text || hasView && view == "" {
		return tag{}
	}
	return tag{version: symbols.Version(version), view: view, gzip: gzip}
}

// knownTag returns the tag in an If-None-Match that stands for a version of a view, in any
// encoding, or "" if the client has another version.
func knownTag(noneMatch ranges.Tags, version symbols.Version, view string) string {
	if noneMatch.Any {
		return tag{version: version, view: view}.String()
	}
	for _, given := range noneMatch.List {
		if t := parseTag(given); t.version == version && t.view == view {
			return strings.TrimPrefix(given, "W/")
		}
	}
	return ""
}

func (c *call) setTag(etag string) {
	header := c.w.Header()
	header.Set("Cache-Control", cacheControlRevalidate)
	header.Set("Etag", etag)
}

// ifMatch returns the condition in If-Match, [symbols.Any] if it is absent or *. It also
// accepts weak tags, because proxies that compress weaken ours, and tags of selected fields.
// A header without our tags matches nothing.
func (c *call) ifMatch() symbols.Match {
	lines := c.r.Header["If-Match"]
	tags := ranges.ParseTags(lines)
	if lines == nil || tags.Any {
		return symbols.Any
	}
	var versions []symbols.Version
	for _, given := range tags.List {
		versions = append(versions, parseTag(given).version)
	}
	return symbols.IfMatch(versions...)
}
