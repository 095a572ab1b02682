package fetch

import (
	"net/http"
	"strings"
	"time"
)

// strongValidator returns the ETag of a response, or else its Last-Modified, in
// the form of If-Range. It returns the empty string if neither is strong (RFC
// 9110, sections 8.8.1 and 13.1.5).
//
// A Last-Modified is strong if it is at least one second before the Date of the
// response, because a later change then has a later time (section 8.8.2.2).
func strongValidator(header http.Header) string {
	if etag := entityTag(header.Get("ETag")); etag != "" && !strings.HasPrefix(etag, "W/") {
		return etag
	}
	text := header.Get("Last-Modified")
	modified := parseTime(text)
	if modified.IsZero() || parseTime(header.Get("Date")).Sub(modified) < time.Second {
		return ""
	}
	return text
}

// hasValidator reports whether a response is of the file with the given strong
// validator. An unchanged Last-Modified needs no Date: it was strong before.
func hasValidator(header http.Header, validator string) bool {
	field := "Last-Modified"
	if strings.HasPrefix(validator, `"`) {
		field = "ETag"
	}
	return validator != "" && header.Get(field) == validator
}
