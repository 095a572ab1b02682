package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

const (
	reserveSuffix = "-reserve"
	reserveSize   = 2 << 20 // bytes

	// changeSize is more than what a change of a key adds to the WAL, which is 24 KB.
	changeSize = 64 << 10
)

// writeReserved is write for changes that must succeed on a full disk. If the
// transaction cannot be committed, writeReserved empties the reserve and calls change
// again. It then restores the reserve as far as the disk permits.
func (db *database) writeReserved(ctx context.Context, change func(*sql.Conn) error) error {
	file := db.file(ctx)
	return db.withWriter(ctx, func(conn *sql.Conn) error {
		defer fillReserve(file) // before another write takes the space
		committing, err := transact(ctx, conn, change)
		if committing && err != nil && db.retryReserved(ctx, conn, file, change) {
			return nil
		}
		return err
	})
}

// retryReserved empties the reserve, repeats a transaction, and reports whether that
// succeeded.
func (db *database) retryReserved(ctx context.Context, conn *sql.Conn, file string, change func(*sql.Conn) error) bool {
	reserve, err := os.Stat(file + reserveSuffix)
	if err != nil || reserve.Size() == 0 || os.Truncate(file+reserveSuffix, 0) != nil {
		return false
	}
	// A checkpoint that fails because the disk is full would take the space.
	var pages int
	if err := conn.QueryRowContext(ctx, `PRAGMA wal_autocheckpoint`).Scan(&pages); err != nil {
		return false
	}
	defer setAutocheckpoint(conn, pages)
	setAutocheckpoint(conn, 0)
	if _, err := transact(ctx, conn, change); err != nil {
		return false
	}
	if growth, err := checkpointGrowth(ctx, conn, file); err == nil && growth < reserve.Size()-changeSize {
		conn.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`) // frees the WAL
	}
	return true
}

func setAutocheckpoint(conn *sql.Conn, pages int) {
	conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, pages))
}

// checkpointGrowth returns how many bytes a checkpoint adds to the database file.
func checkpointGrowth(ctx context.Context, conn *sql.Conn, file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	var size int64
	err = conn.QueryRowContext(ctx, `
		SELECT page_count * page_size
		FROM pragma_page_count
		CROSS JOIN pragma_page_size`,
	).Scan(&size)
	return size - info.Size(), err
}

// file returns the name of the database file, or an empty string if it is not a file
// of the operating system.
func (db *database) file(ctx context.Context) string {
	var name string
	err := db.queryRow(ctx, `
		SELECT file
		FROM pragma_database_list
		WHERE name = 'main'`,
	).Scan(&name)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return name
}

// fillReserve extends the reserve of a database file to its size, or as far as the
// disk permits. Random bytes take up space in file systems that compress.
func fillReserve(file string) {
	if file == "" {
		return
	}
	if info, err := os.Stat(file + reserveSuffix); err == nil && info.Size() >= reserveSize {
		return
	}
	reserve, err := os.OpenFile(file+reserveSuffix, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer reserve.Close()
	if info, err := reserve.Stat(); err == nil {
		io.CopyN(reserve, rand.NewChaCha8([32]byte{}), reserveSize-info.Size())
	}
}
