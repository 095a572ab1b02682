// Package revocation has tests of several keys.Services that share a database. They need
// modules that the tests of package keys must not bring to its importers.
package revocation_test
