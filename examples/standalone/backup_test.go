package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// -backup copies the database of a running server, under load.
func TestBackup_SQLite(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	env := map[string]string{"DATABASE_URL": "sqlite:" + filepath.Join(dir, "canvas.db"), "DEMO": "false", "PROTECT_ROUTES": "false"}
	s := startServer(t, env)
	created, stop, stopped := make(chan string, 1000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range cap(created) {
			name := fmt.Sprint("folder ", i)
			s.sendJSON(201, "POST", "/symbol/folders", `{"name":"`+name+`"}`)
			created <- name
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	acknowledged := []string{<-created, <-created, <-created}
	for len(created) > 0 {
		acknowledged = append(acknowledged, <-created)
	}
	copied := filepath.Join(dir, "copy.db")
	variables := []string{"DATABASE_URL=" + env["DATABASE_URL"]}
	out, err := programCommand(t, variables, "-backup", copied).CombinedOutput()
	t.Logf("%s", out)
	is.NoErr(err)
	close(stop)
	<-stopped
	out, err = programCommand(t, variables, "-backup", copied).CombinedOutput()
	is.True(err != nil)
	is.True(strings.Contains(string(out), "file already exists"))
	for databaseURL, want := range map[string]string{
		"sqlite:" + filepath.Join(dir, "missing.db"): "missing.db: no such file or directory",
		"postgres://canvas:secret@localhost/canvas":  "use pg_dump",
		"memory:": "use pg_dump",
	} {
		out, err = programCommand(t, []string{"DATABASE_URL=" + databaseURL}, "-backup", filepath.Join(dir, "other.db")).CombinedOutput()
		is.True(err != nil)
		is.True(strings.Contains(string(out), want))
		is.True(!strings.Contains(string(out), "secret"))
	}

	env["DATABASE_URL"] = "sqlite:" + copied
	restored := startServer(t, env)
	list := restored.sendText(200, "GET", "/symbol/folders", "")
	for _, name := range acknowledged {
		is.True(strings.Contains(list, `"`+name+`"`))
	}
}

// A dump is restored to another database, and to the database of a running server,
// which then accepts no key of the lost time and repeats no entity tag.
func TestBackup_PostgreSQL(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	databaseURL := pgtest.Database(t)
	for _, program := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(program + " is not installed")
		}
	}
	command := func(name string, arguments ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
		t.Logf("%s: %s", name, out)
		is.NoErr(err)
	}
	env := map[string]string{"DATABASE_URL": databaseURL, "DEMO": "false", "ADMIN_API_KEY": firstAdminKey}
	s := startServer(t, env)
	kept := s.issueKey("", firstAdminKey)
	s.sendJSON(201, "POST", "/symbol/folders", `{"name":"kept"}`, "x-api-key", kept)
	dump := filepath.Join(t.TempDir(), "canvasback.dump")
	command("pg_dump", "--format=custom", "--no-owner", "--file="+dump, databaseURL)
	lost := s.issueKey("", firstAdminKey)
	s.sendJSON(200, "PATCH", "/symbol/folders/1", `{"name":"lost"}`, "x-api-key", lost)
	tag := entityTag(t, s.url+"/symbol/folders/1", lost)

	// The running server.
	command("pg_restore", "--clean", "--if-exists", "--single-transaction", "--no-owner", "--dbname="+databaseURL, dump)
	// after a lease of half a second
	waitFor(t, func() bool { return s.status("/symbol/folders", "x-api-key", lost) == 401 }, s.log)
	s.sendJSON(200, "PATCH", "/symbol/folders/1", `{"name":"other"}`, "x-api-key", kept)
	is.True(entityTag(t, s.url+"/symbol/folders/1", kept) != tag)

	// Another database.
	env["DATABASE_URL"] = pgtest.Database(t)
	command("pg_restore", "--single-transaction", "--no-owner", "--dbname="+env["DATABASE_URL"], dump)
	s = startServer(t, env)
	is.Equal(s.sendJSON(200, "GET", "/symbol/folders/1", "", "x-api-key", kept)["name"], "kept")
	s.sendJSON(200, "PATCH", "/symbol/folders/1", `{"name":"written"}`, "x-api-key", kept)
	s.sendJSON(401, "GET", "/symbol/folders/1", "", "x-api-key", lost)
	s.sendJSON(200, "PATCH", "/admin/api-keys/1", `{"isActive":false}`, "x-admin-key", firstAdminKey)
	s.sendJSON(403, "GET", "/symbol/folders/1", "", "x-api-key", kept) // the triggers that revoke are restored
}

func entityTag(t *testing.T, url, key string) string {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	request.Header.Set("x-api-key", key)
	response := must(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	is.New(t).Equal(response.StatusCode, http.StatusOK)
	return response.Header.Get("ETag")
}

// Processes on one database open the same samples and files, whatever their addresses
// are. Their links have the address of the request or PUBLIC_URL.
func TestReplicas_ShareSamplesAndFiles(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(dir, "plan.pdf"), []byte("plan"), 0o600))
	databaseURL := pgtest.Database(t)
	start := func(publicURL string) *server {
		return startServer(t, map[string]string{"DATABASE_URL": databaseURL, "EXPORT_DIR": dir, "PUBLIC_URL": publicURL, "PROTECT_ROUTES": "false"})
	}
	const publicURL = "https://canvas.example/tools"
	replicas := []*server{start(""), start(""), start(publicURL + "/")}
	is.True(strings.Contains(replicas[0].log.String(), "ADMIN_API_KEY is not set"))
	is.True(strings.Contains(replicas[2].banner, "API="+publicURL+"/api\n"))
	replicas[0].register("plan", "http://files.internal/plan.pdf")
	plan := single("plan")
	for i, s := range replicas {
		s.sendText(200, "POST", "/viewer/exports/download", single("https://viewer.example/drawings/datasheet"))
		is.Equal(s.sendText(200, "POST", "/viewer/exports/download", plan), "plan")
		url, _ := s.sendJSON(200, "POST", "/viewer/exports/download?responseType=urls", plan)["exportedUrl"].(string)
		api := s.url
		if i == 2 {
			api = publicURL + "/api"
		}
		path, ok := strings.CutPrefix(url, api)
		is.True(ok)
		for _, other := range replicas {
			is.Equal(other.sendText(200, "GET", path, ""), "plan")
		}
	}
}
