package main

import (
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
	is.NoErr(os.WriteFile(filepath.Join(dir, "plan.pdf"), []byte("plan"), 0o600))
	s := startServer(t, map[string]string{"EXPORT_DIR": dir, "PROTECT_ROUTES": "false"})
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/files/plan.pdf": 404, "/plan.pdf": 404, "/samples/datasheet.pdf": 404,
		"/nope": 404, "/api": 404, "/api/": 404, "/api//symbol/folders": 404,
	} {
		t.Log(path)
		is.Equal(s.status(s.baseURL()+path), want)
	}
	s.sendJSON(400, "POST", "/viewer/exports/register", registration("s", s.baseURL()+"/healthz"))
}

// TestServer_KeepsFilesPrivate downloads files of EXPORT_DIR, and checks that other URLs
// of the machine are rejected.
func TestServer_KeepsFilesPrivate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.MkdirAll(filepath.Join(dir, "sub", ".git"), 0o700))
	for _, name := range []string{".env", "sub/.git/config", "sub/plan..v2.pdf"} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o600))
	}
	s := startServer(t, map[string]string{
		"EXPORT_DIR":     dir,
		"EXPORT_DIR_URL": "http://files.internal/, https://previous.example/exports", "PROTECT_ROUTES": "false", "DEMO": "false",
	})
	for exported, want := range map[string]int{
		"http://files.internal/sub/plan..v2.pdf":            200,
		"HTTP://Files.Internal:80/sub/plan..v2.pdf":         200,
		"https://previous.example/exports/sub/plan..v2.pdf": 200,
		"http://files.internal/.env":                        502,
		"http://files.internal/sub/.git/config":             502,
		"http://files.internal/sub/%2egit/config":           502,
		"http://files.internal/nope":                        502,
	} {
		t.Log(exported)
		s.register(exported, exported)
		body := s.sendText(want, "POST", "/viewer/exports/download", single(exported))
		is.Equal(want == 200, body == "content")
		body = s.sendText(want, "POST", "/viewer/exports/download?responseType=urls", single(exported))
		is.Equal(want == 200, strings.Contains(body, `"exportedUrl":"`+s.url+`/viewer/exports/links/`))
	}
}

func TestServer_NeverDialsFilesOfThisMachine(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[string]string{"PROTECT_ROUTES": "false", "EXPORT_ALLOWED_HOSTS": "files.internal"})
	s.register("s", "http://files.internal/plan.pdf")
	s.sendJSON(502, "POST", "/viewer/exports/download", single("s"))
	is.New(t).True(strings.Contains(s.log.String(), "does not exist")) // not: no such host
}

func TestServer_FetchesNothingFromItself(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[string]string{"PROTECT_ROUTES": "false", "DEMO": "false", "EXPORT_ALLOWED_HOSTS": "127.0.0.1, localhost"})
	for _, host := range []string{"127.0.0.1", "localhost"} {
		s.register(host, strings.Replace(s.url, "127.0.0.1", host, 1)+"/openapi.json")
		s.sendJSON(502, "POST", "/viewer/exports/download", single(host))
		s.sendJSON(502, "POST", "/viewer/exports/download-batch", batch(host))
		s.sendJSON(502, "POST", "/viewer/exports/links", single(host))
	}
}

// TestServer_ServesConsole also checks that the console does not shadow the API or
// other pages.
func TestServer_ServesConsole(t *testing.T) {
	t.Parallel()
	for base, api := range map[string]string{"": "./", "/api": "./api/", "/v1/canvas": "./v1/canvas/"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := startServer(t, map[string]string{"BASE_PATH": base, "ADMIN_API_KEY": firstAdminKey})
			baseURL := strings.TrimSuffix(s.url, base)
			is.True(strings.Contains(s.banner, baseURL+"/\n"))
			page := s.sendText(200, "GET", baseURL+"/", "")
			is.True(strings.Contains(page, `data-api="`+api+`"`))
			files := regexp.MustCompile(`(?:src|href)="([a-z.]+)"`).FindAllStringSubmatch(page, -1)
			is.True(len(files) >= 3)
			for _, file := range files {
				t.Log(file[1])
				is.Equal(s.status(baseURL+"/"+file[1]), 200)
			}
			for path, want := range map[string]int{
				s.url + "/admin/api-keys": 200, s.url + "/symbol/folders": 401, baseURL + "/healthz": 200, baseURL + "/readyz": 200,
				baseURL + "/nope":     404,
				baseURL + "//healthz": 404, baseURL + "//": 404, baseURL + "/./healthz": 404, baseURL + "/x/../healthz": 404,
				baseURL + "/nope.js": 404, baseURL + "/console.go": 404,
			} {
				t.Log(path)
				is.Equal(s.status(path, "x-admin-key", firstAdminKey), want)
			}
			is.Equal(s.sendJSON(404, "POST", baseURL+"/", "")["code"], "not_found") // from the API
		})
	}
}
