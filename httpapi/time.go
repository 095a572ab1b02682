package httpapi

import (
	"regexp"
	"strings"
	"time"
)

// formatTime formats a time as RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return string(appendTime(nil, t)) }

// appendTime appends what formatTime returns. AppendFormat has a fast path for
// time.RFC3339 only.
func appendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendOptionalTime appends a time as JSON: null if it is zero.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return append(appendTime(append(dst, '"'), t), '"')
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
