package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check refuses a database that is opened without what the promises of this
// package rest on; the error names everything that is to be set. It looks at
// one connection, taking the others to be opened alike.
func (db *DB) Check(ctx context.Context) error {
	var (
		version, file, journal            string
		foreignKeys, timeout, synchronous int
	)
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = conn.QueryRowContext(ctx, `
		SELECT
			sqlite_version(), main.file, journal.journal_mode,
			keys.foreign_keys, busy.timeout, sync.synchronous
		FROM pragma_database_list AS main
		CROSS JOIN pragma_journal_mode AS journal
		CROSS JOIN pragma_foreign_keys AS keys
		CROSS JOIN pragma_busy_timeout AS busy
		CROSS JOIN pragma_synchronous AS sync
		WHERE main.name = 'main'`,
	).Scan(&version, &file, &journal, &foreignKeys, &timeout, &synchronous)
	if err != nil {
		return err
	}
	var wrong []string
	if older(version) {
		wrong = append(wrong, "SQLite "+version+" can damage the file, use 3.51.3 or newer")
	}
	if foreignKeys == 0 {
		wrong = append(wrong, "foreign_keys is off, set it to 1")
	}
	if timeout <= 0 {
		wrong = append(wrong, "busy_timeout is 0, set it to some thousand milliseconds")
	}
	if inMemory := file == ""; journal != "wal" && !inMemory {
		wrong = append(wrong, "journal_mode is "+journal+", set it to WAL")
	}
	if synchronous < 2 { // 2 is FULL, 3 is EXTRA
		wrong = append(wrong, "synchronous is below FULL, set it to FULL")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("sqlite: database is not opened as needed: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// connect returns a connection. Processes that open a new file at the same
// instant all turn it into a WAL database, for which SQLite does not let them
// wait: it fails at once for all but one, and works at the next try.
func (db *DB) connect(ctx context.Context) (*sql.Conn, error) {
	const tries, pause = 25, 20 * time.Millisecond
	for i := 1; ; i++ {
		conn, err := db.pool.Conn(ctx)
		if err == nil || i == tries {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// older reports whether a version of SQLite, or what is none, comes before
// 3.51.3. Until then a connection that writes and one that starts the WAL anew
// could damage the file between them.
func older(version string) bool {
	var v [3]int
	fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return slices.Compare(v[:], []int{3, 51, 3}) < 0
}
