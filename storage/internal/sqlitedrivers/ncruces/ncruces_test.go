// Package ncruces tests github.com/ncruces/go-sqlite3.
package ncruces

import (
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"example.com/canvasback/storage/internal/sqlitedrivers"
)

func TestStorage(t *testing.T) {
	sqlitedrivers.Run(t, "_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
}
