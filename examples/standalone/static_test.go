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

func TestPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "sub", "plan.pdf"), []byte("plan"), 0o600))
	s := launch(t, map[string]string{"DATABASE_URL": "memory:", "EXPORT_DIR": dir, "PROTECT_ROUTES": "false"})
	own := strings.TrimSuffix(s.url, "/api")
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/files/sub/plan.pdf": 200, "/samples/datasheet.pdf": 200,
		"/files/": 404, "/files/sub/": 404, "/files/sub": 404, "/files/nope": 404, "/files/../standalone.go": 404, "/nope": 404, "/api": 404, "/api/": 404, "/api//symbol/folders": 404,
	} {
		status, body := s.send("GET", own+path, "")
		if status != want && !(path == "/files/sub" || path == "/files/../standalone.go") {
			t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
		}
	}
	address := own + "/files/sub/plan.pdf"
	s.object(201, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, address))
	status, body := s.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"s"}`)
	is.Equal(status, 200)
	is.Equal(string(body), "plan") // read from disk, although the address is private
	s.object(400, "POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s","exportedUrl":%q}`, own+"/healthz"))
}

// TestConsole looks for the console, and for what it may not stand in front of.
func TestConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for base, api := range map[string]string{"": "./", "/api": "./api/", "/v1/canvas": "./v1/canvas/"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			s := launch(t, map[string]string{"DATABASE_URL": "memory:", "BASE_PATH": base, "EXPORT_DIR": dir, "ADMIN_API_KEY": "one"})
			own := strings.TrimSuffix(s.url, base)
			if !strings.Contains(s.banner, own+"/\n") {
				t.Errorf("the banner lacks the console's address:\n%.500s", s.banner)
			}
			status, page := s.send("GET", own+"/", "")
			if status != 200 || !strings.Contains(string(page), `data-api="`+api+`"`) {
				t.Fatalf("GET /: %d %.200s, want a page that knows the API at %s", status, page, api)
			}
			files := regexp.MustCompile(`(?:src|href)="([a-z.]+)"`).FindAllStringSubmatch(string(page), -1)
			if len(files) < 3 {
				t.Errorf("the page names %d files", len(files))
			}
			for _, file := range files {
				if status, _ := s.send("GET", own+"/"+file[1], ""); status != 200 {
					t.Errorf("GET /%s: %d", file[1], status)
				}
			}
			for path, want := range map[string]int{
				s.url + "/admin/api-keys": 200, s.url + "/symbol/folders": 401, own + "/healthz": 200, own + "/readyz": 200,
				own + "/samples/datasheet.pdf": 200, own + "/files/nope": 404, own + "/nope": 404,
				own + "//healthz": 404, own + "//": 404, own + "/samples": 404, own + "/./healthz": 404, own + "/x/../healthz": 404, own + "/nope.js": 404, own + "/console.go": 404,
			} {
				if status, body := s.send("GET", path, "", "x-admin-key", "one"); status != want {
					t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
				}
			}
			if status, body := s.send("POST", own+"/", ""); status != 404 || !strings.Contains(string(body), `"code":"not_found"`) {
				t.Errorf("POST /: %d %s, want the API's 404", status, body)
			}
		})
	}
}
