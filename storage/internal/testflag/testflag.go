// Package testflag has the flag -long of the tests of drivers.
package testflag

import "flag"

var long = flag.Bool("long", false, "run concurrent tests for minutes to find rare failures")

// Long reports whether the flag -long is set.
func Long() bool { return *long }
