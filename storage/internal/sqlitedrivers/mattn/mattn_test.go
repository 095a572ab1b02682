// Package mattn tests github.com/mattn/go-sqlite3.
package mattn

import (
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"example.com/canvasback/storage/internal/sqlitedrivers"
)

func TestStorage(t *testing.T) {
	sqlitedrivers.Run(t, "_busy_timeout=5000&_foreign_keys=1&_journal_mode=WAL&_synchronous=FULL")
}
