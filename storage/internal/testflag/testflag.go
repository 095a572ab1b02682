// Package testflag has the flag -long of the tests of drivers.
package testflag

import "flag"

// Long is the flag -long.
var Long = flag.Bool("long", false, "run concurrent tests for minutes to find rare failures")
