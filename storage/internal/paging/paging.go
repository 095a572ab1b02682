// Package paging selects the records of a page with SQL. A query reads one record
// more than the page has, which shows whether others follow.
package paging

import "math"

// FetchLimit returns the LIMIT of the query for a page of at most limit records; 0
// or less means that the page has no limit.
func FetchLimit(limit int) int {
	if limit <= 0 || limit == math.MaxInt {
		return math.MaxInt
	}
	return limit + 1
}

// Cut returns the page of at most limit records from what the query has read, and
// whether others follow.
func Cut[T any](read []T, limit int) (page []T, more bool) {
	if limit <= 0 || len(read) <= limit {
		return read, false
	}
	return read[:limit], true
}
