// Package paging cuts a page from a list. A query reads one record more than the
// page has, which shows whether others follow.
package paging

import "math"

// FetchLimit returns the LIMIT of the query for a page of at most limit records. A
// limit of 0 or less is none.
func FetchLimit(limit int) int {
	if limit <= 0 || limit == math.MaxInt {
		return math.MaxInt
	}
	return limit + 1
}

// Cut returns the first limit records of those read, and whether others follow. A
// limit of 0 or less is none.
func Cut[T any](read []T, limit int) (page []T, more bool) {
	if limit <= 0 || len(read) <= limit {
		return read, false
	}
	return read[:limit], true
}
