// Package linear has tests only. They record what concurrent callers of each
// driver saw, and have a checker look for an order of the calls, one after the
// other, that explains it.
package linear
