package main

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"
)

// execute runs a statement in a database.
func execute(t *testing.T, databaseURL, statement string) {
	t.Helper()
	is := is.New(t)
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(path))
		if err == nil {
			defer db.Close()
			_, err = db.ExecContext(t.Context(), statement)
		}
		is.NoErr(err)
		return
	}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	is.NoErr(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	is.NoErr(err)
}

// TestServer_IssuesNoIDThatBrowsersRound creates records at the end of the numbers
// that a JSON number in a browser holds exactly.
func TestServer_IssuesNoIDThatBrowsersRound(t *testing.T) {
	t.Parallel()
	const maxExact = 1<<53 - 1
	eachPersistentDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := startServer(t, map[string]string{
			"DATABASE_URL": databaseURL, "DEMO": "false", "ADMIN_API_KEY": firstAdminKey, "PROTECT_ROUTES": "false", "EXPORT_ALLOWED_HOSTS": "x.example",
		})
		s.sendJSON(201, "POST", "/symbol/folders", `{"name":"of symbols"}`)
		routes := []struct{ table, path, body string }{
			{"keys", "/admin/api-keys", `{}`},
			{"symbols", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"y"}`},
			{"folders", "/symbol/folders", `{"name":"%d"}`},
			{"exports", "/viewer/exports/register", `{"sourceFileUrl":"%d","exportedUrl":"http://x.example/"}`},
		}
		for _, route := range routes {
			setSequence := `SELECT setval(pg_get_serial_sequence('canvasback_%[1]s', 'id'), %[2]d)`
			if strings.HasPrefix(databaseURL, "sqlite:") {
				setSequence = `DELETE FROM sqlite_sequence WHERE name = 'canvasback_%[1]s'; INSERT INTO sqlite_sequence VALUES ('canvasback_%[1]s', %[2]d)`
			}
			execute(t, databaseURL, fmt.Sprintf(setSequence, route.table, int64(maxExact-1)))
			for i, want := range []int{201, 503, 503} {
				body := strings.ReplaceAll(route.body, "%d", fmt.Sprint(i))
				out := s.sendJSON(want, "POST", route.path, body, "x-admin-key", firstAdminKey)
				if record, ok := out["key"].(map[string]any); ok {
					out = record
				}
				if record, ok := out["record"].(map[string]any); ok {
					out = record
				}
				if want == 201 {
					is.Equal(out["id"], float64(maxExact))
				} else {
					is.Equal(out["code"], "unavailable")
				}
			}
		}
	})
}
