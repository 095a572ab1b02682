// Package drivertest has only tests. They run statements by hand on the database of
// packages sqlite and postgres, and apply to both alike. Tests of what only one of them
// has are in its own package; package storagetest tests the stores of any driver.
// Histories of concurrent calls of all drivers, memory included, are linearizable.
package drivertest
