// Package linear has only tests. They record concurrent calls of each driver and
// check that the calls are linearizable: that some order of the calls, one at a
// time, explains all results.
package linear
