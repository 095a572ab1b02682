// Package testflag serves the tests of this module, without a promise of compatibility: how
// much they do, and the check of a call that must succeed.
package testflag

import (
	"flag"
	"os"
	"testing"
)

// Long is the flag -long.
var Long = flag.Bool("long", false, "run tests for minutes to find rare failures")

// Thorough reports whether to run tests that take long and seldom fail: with -long, and in CI.
func Thorough() bool { return *Long || os.Getenv("CI") == "true" }

// SkipUnlessThorough skips such a test.
func SkipUnlessThorough(t testing.TB) {
	t.Helper()
	if !Thorough() {
		t.Skip("it takes long: run with -long or CI=true")
	}
}

// Rounds returns how often to do what is random: few times, usual times in CI, and many
// times with -long.
func Rounds(few, usual, many int) int {
	switch {
	case *Long:
		return many
	case Thorough():
		return usual
	}
	return few
}

// Must returns the value of a call, and ends the test if it fails: Must(f())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
