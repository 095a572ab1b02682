package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestServer_ServesPagesNextToAPI(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "sub", "plan.pdf"), []byte("plan"), 0o600))
	s := startServer(t, map[string]string{"DATABASE_URL": "memory:", "EXPORT_DIR": dir, "PROTECT_ROUTES": "false"})
	baseURL := strings.TrimSuffix(s.url, "/api")
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/files/sub/plan.pdf": 200, "/samples/datasheet.pdf": 200,
		"/files/": 404, "/files/sub/": 404, "/files/sub": 404, "/files/nope": 404, "/files/../standalone.go": 404, "/nope": 404, "/api": 404, "/api/": 404, "/api//symbol/folders": 404,
	} {
		t.Log(path)
		is.Equal(s.status(baseURL+path), want)
	}
	s.sendJSON(201, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, baseURL+"/files/sub/plan.pdf"))
	status, body := s.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"s"}`)
	is.Equal(status, 200)
	is.Equal(string(body), "plan") // read from disk: fetch rejects the loopback address
	s.sendJSON(400, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, baseURL+"/healthz"))
}

func TestServer_FetchesNothingFromItself(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[string]string{"DATABASE_URL": "memory:", "PROTECT_ROUTES": "false", "DEMO": "false", "EXPORT_ALLOWED_HOSTS": "127.0.0.1, localhost"})
	for _, host := range []string{"127.0.0.1", "localhost"} {
		url := strings.Replace(s.url, "127.0.0.1", host, 1) + "/openapi.json"
		s.sendJSON(201, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, host, url))
		single := fmt.Sprintf(`{"sourceFileUrl":%q}`, host)
		s.sendJSON(502, "POST", "/viewer/exports/download", single)
		s.sendJSON(502, "POST", "/viewer/exports/download-batch", `{"items":[`+single+`]}`)
		s.sendJSON(502, "POST", "/viewer/exports/links", single)
	}
}

// TestServer_HidesDotFiles checks the routes of files and of downloads.
func TestServer_HidesDotFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	for _, name := range []string{".env", ".git/config", "plan..v2.pdf"} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o600))
	}
	s := startServer(t, map[string]string{"DATABASE_URL": "memory:", "EXPORT_DIR": dir, "PROTECT_ROUTES": "false", "DEMO": "false"})
	for path, visible := range map[string]bool{"/files/.env": false, "/files/.git/config": false, "/files/%2eenv": false, "/files/plan..v2.pdf": true} {
		t.Log(path)
		fileStatus, downloadStatus := 404, 502
		if visible {
			fileStatus, downloadStatus = 200, 200
		}
		url := strings.TrimSuffix(s.url, "/api") + path
		is.Equal(s.status(url), fileStatus)
		s.sendJSON(201, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, path, url))
		status, body := s.send("POST", "/viewer/exports/download", fmt.Sprintf(`{"sourceFileUrl":%q}`, path))
		is.Equal(status, downloadStatus)
		is.Equal(visible, string(body) == "content")
	}
}

// TestServer_ServesConsole also checks that the console does not shadow the API or
// other pages.
func TestServer_ServesConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for base, api := range map[string]string{"": "./", "/api": "./api/", "/v1/canvas": "./v1/canvas/"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := startServer(t, map[string]string{"DATABASE_URL": "memory:", "BASE_PATH": base, "EXPORT_DIR": dir, "ADMIN_API_KEY": firstAdminKey})
			baseURL := strings.TrimSuffix(s.url, base)
			is.True(strings.Contains(s.banner, baseURL+"/\n"))
			status, page := s.send("GET", baseURL+"/", "")
			is.Equal(status, 200)
			is.True(strings.Contains(string(page), `data-api="`+api+`"`))
			files := regexp.MustCompile(`(?:src|href)="([a-z.]+)"`).FindAllStringSubmatch(string(page), -1)
			is.True(len(files) >= 3)
			for _, file := range files {
				t.Log(file[1])
				is.Equal(s.status(baseURL+"/"+file[1]), 200)
			}
			for path, want := range map[string]int{
				s.url + "/admin/api-keys": 200, s.url + "/symbol/folders": 401, baseURL + "/healthz": 200, baseURL + "/readyz": 200,
				baseURL + "/samples/datasheet.pdf": 200, baseURL + "/files/nope": 404, baseURL + "/nope": 404,
				baseURL + "//healthz": 404, baseURL + "//": 404, baseURL + "/samples": 404, baseURL + "/./healthz": 404, baseURL + "/x/../healthz": 404, baseURL + "/nope.js": 404, baseURL + "/console.go": 404,
			} {
				t.Log(path)
				is.Equal(s.status(path, "x-admin-key", firstAdminKey), want)
			}
			is.Equal(s.sendJSON(404, "POST", baseURL+"/", "")["code"], "not_found") // from the API
		})
	}
}
