// Package migration reads the numbered SQL files of a driver. It does not run
// them.
package migration

import (
	"fmt"
	"io/fs"
	"regexp"
)

// Migration is one step of a schema.
type Migration struct {
	Version int // counted from 1, without gaps
	Title   string
	SQL     string
}

// Name returns the file name without its extension.
func (m Migration) Name() string { return fmt.Sprintf("%04d_%s", m.Version, m.Title) }

// Names returns the name of each migration.
func Names(list []Migration) []string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name())
	}
	return names
}

// Pending returns the migrations in fsys that follow version, the last one that is
// recorded. A newer release may have recorded more, because migrations only add. One that
// does not, and that the release before therefore cannot work with, has a title that begins
// with contract_; contracted is the last recorded one of these, or 0.
func Pending(fsys fs.FS, version, contracted int) ([]Migration, error) {
	list, err := Read(fsys)
	if err != nil {
		return nil, err
	}
	if contracted > len(list) {
		return nil, fmt.Errorf("migration: the schema has version %d, this release supports %d", contracted, len(list))
	}
	return list[min(version, len(list)):], nil
}

var fileName = regexp.MustCompile(`^([0-9]{4})_([a-z0-9]+(?:_[a-z0-9]+)*)\.sql$`)

// Read returns the migrations at the root of fsys, versions ascending. All files
// must be named NNNN_title.sql, with numbers from 1 without gaps.
func Read(fsys fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(fsys, ".") // sorted by name and therefore by number
	if err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	list := make([]Migration, 0, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		parts := fileName.FindStringSubmatch(name)
		if parts == nil || entry.IsDir() {
			return nil, fmt.Errorf("migration: %s is not a file named NNNN_title.sql", name)
		}
		version := len(list) + 1
		if want := fmt.Sprintf("%04d", version); parts[1] != want {
			return nil, fmt.Errorf("migration: %s: want number %s", name, want)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("migration: %w", err)
		}
		list = append(list, Migration{Version: version, Title: parts[2], SQL: string(text)})
	}
	return list, nil
}
