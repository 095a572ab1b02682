package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/sqlite"
)

func openSQLite(ctx context.Context, path string) (*Database, error) {
	name := "sqlite:" + path
	path, err := filepath.Abs(path) // for errors
	if err != nil {
		return nil, err
	}
	// SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	opened, _ := file.Stat()
	file.Close()
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
		"journal_size_limit(67108864)"}} // of a WAL that has grown during a long read
	source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: pragmas.Encode()}
	pool, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	conns := 1 + min(runtime.GOMAXPROCS(0), 8) // one writes; each has a cache of 2 MB, outside of the memory limit of Go
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	db, err := sqlite.New(pool)
	if err == nil {
		err = db.Check(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, checkWritable(path)))
	}
	return &Database{
		Storage:   db,
		Name:      name,
		PoolStats: pool.Stats,
		FreeSpace: func() (int64, error) {
			now, err := os.Stat(path)
			if err == nil && !os.SameFile(now, opened) {
				err = errors.New(path + " is another file now")
			}
			if err != nil {
				return 0, err
			}
			return freeSpace(filepath.Dir(path))
		},
		Close: func() { pool.Close() },
	}, nil
}

// checkWritable returns an error if SQLite cannot create its other files beside that of path,
// or cannot open the WAL.
func checkWritable(path string) error {
	if wal, err := os.OpenFile(path+"-wal", os.O_RDWR, 0); err == nil {
		wal.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".canvasback-*")
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, 64<<10)) // on a full disk an empty file can be created
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// BackUp copies the SQLite database of a URL to a new file, without migrating it.
func BackUp(ctx context.Context, databaseURL, target string) error {
	scheme, path, _ := strings.Cut(databaseURL, ":")
	if scheme != "sqlite" {
		return errors.New("only SQLite databases can be copied: use pg_dump for PostgreSQL")
	}
	if _, err := os.Stat(path); err != nil { // openSQLite would create it
		return err
	}
	source, err := openSQLite(ctx, path)
	if err != nil {
		return err
	}
	defer source.Close()
	return source.Storage.(*sqlite.DB).Backup(ctx, target)
}
