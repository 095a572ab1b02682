package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// check returns an error that lists the required settings that conn lacks.
func check(ctx context.Context, conn *sql.Conn) error {
	var (
		version, file, journal, encoding  string
		foreignKeys, timeout, synchronous int
	)
	err := conn.QueryRowContext(ctx, `
		SELECT
			sqlite_version(), main.file, journal.journal_mode, text.encoding,
			keys.foreign_keys, busy.timeout, sync.synchronous
		FROM pragma_database_list AS main
		CROSS JOIN pragma_journal_mode AS journal
		CROSS JOIN pragma_encoding AS text
		CROSS JOIN pragma_foreign_keys AS keys
		CROSS JOIN pragma_busy_timeout AS busy
		CROSS JOIN pragma_synchronous AS sync
		WHERE main.name = 'main'`,
	).Scan(&version, &file, &journal, &encoding, &foreignKeys, &timeout, &synchronous)
	if err != nil {
		return err
	}
	var problems []string
	for _, setting := range []struct {
		wrong   bool
		problem string
	}{
		{versionTooOld(version), "SQLite " + version + " can corrupt the file, use 3.51.3 or later"},
		{encoding != "UTF-8", "encoding is " + encoding + ", only UTF-8 stores text unchanged"},
		{foreignKeys == 0, "foreign_keys is off, set it to 1"},
		{timeout <= 0, "busy_timeout is 0, set it to 5000 (milliseconds)"},
		{journal != "wal" && file != "", "journal_mode is " + journal + ", set it to WAL"}, // in memory there is no file
		{synchronous < 2, "synchronous is below FULL, set it to FULL"},                     // 2 is FULL, 3 is EXTRA
	} {
		if setting.wrong {
			problems = append(problems, setting.problem)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("sqlite: unsupported database settings: %s", strings.Join(problems, "; "))
	}
	return nil
}

// connect returns a connection, retrying for half a second. Processes that open
// a new file at the same time all switch it to WAL; SQLite fails this at once
// for all but one of them, without waiting for busy_timeout.
func connect(ctx context.Context, pool *sql.DB) (*sql.Conn, error) {
	const attempts, pause = 25, 20 * time.Millisecond
	for i := 1; ; i++ {
		conn, err := pool.Conn(ctx)
		if err == nil || i == attempts {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// versionTooOld reports whether version is malformed or before 3.51.3. Earlier
// versions can corrupt the file if one connection writes while another resets
// the WAL.
func versionTooOld(version string) bool {
	var v [3]int
	fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return slices.Compare(v[:], []int{3, 51, 3}) < 0
}
