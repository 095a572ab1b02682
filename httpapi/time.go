package httpapi

import (
	"regexp"
	"strings"
	"time"
)

// formatTime formats a time as RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// formatOptionalTime returns nil for the zero time.
func formatOptionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(formatTime(t))
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
