package fetch

import (
	"encoding/base64"
	"encoding/binary"
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

// checksum returns the CRC-32 of the complete file as S3 states it, or nil.
func checksum(header http.Header) *uint32 {
	text := header.Get("X-Amz-Checksum-Crc32")
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sum) != 4 || header.Get("X-Amz-Checksum-Type") != "FULL_OBJECT" {
		return nil
	}
	crc := binary.BigEndian.Uint32(sum)
	return &crc
}
