package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Backup copies the database to a new file while any number of processes read and
// write it. The copy has every write that was committed before the call, is compact,
// and needs no other file. Its mode is 0600. Backup returns an error if a file of that
// name exists.
//
// When Backup returns nil, the copy is complete and on disk. Otherwise there is no file
// of that name. The copy is one read: it does not delay writes, but the WAL grows while
// it lasts. The directory of path needs room for the copy.
//
// To restore the copy, stop all processes, replace the database file by the copy, and
// delete the files with the suffixes -wal and -shm. A copy has the keys of its time:
// revoke once more what was revoked since.
func (d *DB) Backup(ctx context.Context, path string) error {
	if err := d.backup(ctx, path); err != nil {
		return fmt.Errorf("sqlite: backup to %s: %w", path, err)
	}
	return nil
}

func (d *DB) backup(ctx context.Context, path string) error {
	path, err := filepath.Abs(path) // SQLite takes a name that begins with "file:" for a URI
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fs.ErrExist)
	}
	// The copy gets its name when it is complete.
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer os.Remove(temp.Name() + "-journal")                         // SQLite leaves it after an error
	_, err = d.db.pool.ExecContext(ctx, `VACUUM INTO ?`, temp.Name()) // a file that is empty
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); errors.Is(err, fs.ErrExist) { // Rename would replace the file
		return err
	} else if err != nil { // a file system without links
		if err := os.Rename(temp.Name(), path); err != nil {
			return err
		}
	}
	if err := syncDirectory(filepath.Dir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// syncDirectory writes the names in a directory to disk. Windows does so by itself.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
