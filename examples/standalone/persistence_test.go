package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
)

func TestRestart_KeepsRecordsAndReusesNoID(t *testing.T) {
	t.Parallel()
	eachPersistentDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		env := map[string]string{"DATABASE_URL": databaseURL, "DEMO": "false", "ADMIN_API_KEY": firstAdminKey + ", " + secondAdminKey, "BASE_PATH": ""}
		admin := []string{"x-admin-key", secondAdminKey}
		s := startServer(t, env)
		raw := s.issueKey(`{"name":"k"}`, secondAdminKey)
		client := []string{"x-api-key", raw}
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"A"}`, client...)["id"], 1.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 2.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"ü"}`, client...)["id"], 1.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 2.0)
		s.sendJSON(200, "DELETE", "/symbol/folders/2", "", client...)
		s.sendJSON(200, "DELETE", "/symbol/symbols/2", "", client...)
		s.sendJSON(201, "POST", "/admin/api-keys", "", admin...)
		s.sendJSON(200, "DELETE", "/admin/api-keys/2", "", admin...)
		used := s.sendJSON(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"]
		is.True(used != nil)
		is.NoErr(s.stop())

		s = startServer(t, env)
		is.Equal(s.sendJSON(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"], used) // written at shutdown
		is.Equal(s.sendJSON(200, "GET", "/symbol/symbols/1", "", client...)["data"], "ü")
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 3.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 3.0)
		is.Equal(s.sendJSON(201, "POST", "/admin/api-keys", "", admin...)["key"].(map[string]any)["id"], 3.0)
		is.True(!strings.Contains(s.log.String(), raw[10:]))
	})
}

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
	conn := must(pgx.Connect(t.Context(), databaseURL))(t)
	defer conn.Close(t.Context())
	must(conn.Exec(t.Context(), statement))(t)
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
		routes := []struct{ table, path, body, record string }{
			{"keys", "/admin/api-keys", `{}`, "key"},
			{"symbols", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"y"}`, ""},
			{"folders", "/symbol/folders", `{"name":"%d"}`, ""},
			{"exports", "/viewer/exports/register", registration("%d", "http://x.example/"), "record"},
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
				if want == 503 {
					is.Equal(out["code"], "unavailable")
					continue
				}
				if record, ok := out[route.record].(map[string]any); ok {
					out = record
				}
				is.Equal(out["id"], float64(maxExact))
			}
		}
	})
}

func TestServer_ConcurrentWrites(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := startServer(t, map[string]string{"DATABASE_URL": databaseURL, "PROTECT_ROUTES": "false", "DEMO": "false"})
		countStatuses := func(n int, f func(i int) int) map[int]int {
			statuses := make([]int, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { statuses[i] = f(i) })
			}
			wg.Wait()
			counts := map[int]int{}
			for _, status := range statuses {
				counts[status]++
			}
			return counts
		}
		for round := range 5 {
			counts := countStatuses(24, func(int) int {
				status, _ := s.send("POST", "/symbol/folders", fmt.Sprintf(`{"name":"same %d"}`, round))
				return status
			})
			is.Equal(counts, map[int]int{201: 1, 409: 23}) // one creation succeeds

			var folders []struct{ ID int64 }
			is.NoErr(json.Unmarshal([]byte(s.sendText(200, "GET", "/symbol/folders", "")), &folders))
			folder := fmt.Sprintf("/symbol/folders/%d", folders[0].ID)
			var created sync.Map
			counts = countStatuses(24, func(i int) int {
				if i == 12 {
					status, _ := s.send("DELETE", folder, "")
					return status
				}
				status, body := s.send("POST", folder+"/symbols", `{"name":"x","type":"a/b","data":"y"}`)
				if status == 201 {
					var symbol struct{ ID int64 }
					if json.Unmarshal(body, &symbol) == nil {
						created.Store(symbol.ID, true)
					}
				}
				return status
			})
			is.Equal(counts[200], 1)                          // the deletion
			is.Equal(counts[200]+counts[201]+counts[404], 24) // no other status
			created.Range(func(id, _ any) bool {
				is.Equal(s.status(fmt.Sprintf("/symbol/symbols/%d", id)), 404) // no orphan
				return true
			})
		}
	})
}
