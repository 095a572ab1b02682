package migration_test

import (
	"testing"
	"testing/fstest"

	"github.com/matryer/is"

	"example.com/canvasback/storage/internal/migration"
)

func files(names ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, name := range names {
		fsys[name] = &fstest.MapFile{Data: []byte("-- " + name)}
	}
	return fsys
}

func TestRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)

	list, err := migration.Read(files("0002_key_owner.sql", "0001_initial.sql", "0003_v2.sql"))
	is.NoErr(err)
	is.Equal(list, []migration.Migration{
		{Version: 1, Title: "initial", SQL: "-- 0001_initial.sql"},
		{Version: 2, Title: "key_owner", SQL: "-- 0002_key_owner.sql"},
		{Version: 3, Title: "v2", SQL: "-- 0003_v2.sql"},
	}) // ordered by number, complete text
	is.Equal(migration.Names(list), []string{"0001_initial", "0002_key_owner", "0003_v2"})

	list, err = migration.Read(files())
	is.NoErr(err)
	is.Equal(len(list), 0)
	is.Equal(len(migration.Names(list)), 0)
}

func TestRead_RejectsFileNames(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]fstest.MapFS{
		"gap":              files("0001_initial.sql", "0003_later.sql"),
		"first missing":    files("0002_later.sql"),
		"from zero":        files("0000_initial.sql", "0001_later.sql"),
		"number twice":     files("0001_initial.sql", "0001_other.sql"),
		"no number":        files("initial.sql"),
		"short number":     files("001_initial.sql"),
		"long number":      files("00001_initial.sql"),
		"no title":         files("0001_.sql"),
		"capital letters":  files("0001_Initial.sql"),
		"other characters": files("0001_first-step.sql"),
		"other extension":  files("0001_initial.sql", "0002_later.txt"),
		"other file":       files("0001_initial.sql", "README.md"),
		"folder":           files("0001_initial.sql/nested.sql"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)

			list, err := migration.Read(fsys)
			is.True(err != nil)
			is.Equal(len(list), 0)
		})
	}
}
