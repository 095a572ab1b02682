package sqlite_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
)

func TestCheck_NamesMissingSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, dsn, missing string
	}{
		{"as documented", file(t) + pragmas, ""},
		{"stronger", file(t) + strings.Replace(pragmas, "FULL", "EXTRA", 1), ""},
		{"in memory", "file::memory:" + strings.Replace(pragmas, "WAL", "MEMORY", 1), ""},
		{"nothing set", file(t), "foreign_keys, busy_timeout, journal_mode"},
		{"no foreign keys", file(t) + strings.Replace(pragmas, "foreign_keys(1)", "foreign_keys(0)", 1), "foreign_keys"},
		{"no busy timeout", file(t) + strings.Replace(pragmas, "5000", "0", 1), "busy_timeout"},
		{"no WAL", file(t) + strings.Replace(pragmas, "WAL", "TRUNCATE", 1), "journal_mode"},
		{"journal in memory", file(t) + strings.Replace(pragmas, "WAL", "MEMORY", 1), "journal_mode"},
		{"UTF-16", file(t) + "?_pragma=encoding('UTF-16')&" + pragmas[1:], "encoding"},
		{"no sync", file(t) + strings.Replace(pragmas, "FULL", "NORMAL", 1), "synchronous"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			conn := connect(t, test.dsn)
			db := must(sqlite.New(conn))(t)
			err := db.Check(t.Context())
			if test.missing == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			for _, pragma := range strings.Split(test.missing, ", ") {
				is.True(strings.Contains(err.Error(), pragma)) // names the setting
			}
			is.True(db.Migrate(t.Context()) != nil)
			is.Equal(len(schema(t, conn)), 0) // Migrate has created nothing
		})
	}
}
