// Package testflag says how much the tests do.
package testflag

import (
	"flag"
	"os"
)

// Long is the flag -long.
var Long = flag.Bool("long", false, "run concurrent tests for minutes to find rare failures")

// Thorough reports whether to run variants of a test that take long and seldom fail: with
// -long, and in CI.
func Thorough() bool { return *Long || os.Getenv("CI") == "true" }
