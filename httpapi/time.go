package httpapi

import (
	"regexp"
	"strings"
	"time"

	"example.com/canvasback/httpapi/internal/bodies"
)

// formatTime formats a time as RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return string(bodies.AppendTime(nil, t)) }

// appendOptionalTime appends a time as JSON: null if it is zero.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return append(bodies.AppendTime(append(dst, '"'), t), '"')
}

// rfc3339 is the grammar of RFC 3339, section 5.6. time.Parse alone accepts an hour
// of one digit, a decimal comma, and an offset of 24 hours.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseTime parses RFC 3339 with any offset, or a plain date as midnight UTC.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil && rfc3339.MatchString(text) {
		at, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	if err != nil || at.IsZero() { // the zero time means none
		return time.Time{}, invalidRequest(field + ` must be a time such as "2026-12-31T23:59:59Z" or a date such as "2026-12-31"`)
	}
	return at, nil
}
