package client_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/client"
)

// TestClient_InNode runs the tests in testdata with Node.js. Those of api.test.js call
// all operations of a server.
func TestClient_InNode(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	if _, err := exec.LookPath("node"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + err.Error())
	}
	script, err := fs.ReadFile(client.Files, "client.js")
	is.NoErr(err)
	dir := t.TempDir()
	is.NoErr(os.CopyFS(dir, os.DirFS("testdata")))
	is.NoErr(os.WriteFile(filepath.Join(dir, "client.js"), script, 0o600))
	is.NoErr(os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))

	s := apitest.New(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithClientKey })
	s.Clock.Set(time.Now()) // as in Node.js
	s.RegisterExport(t, "https://viewer.example/documents/17", "plan.pdf", "%PDF-1.7")
	var names []string
	for _, o := range readOperations(t) {
		names = append(names, o.name)
	}
	command := exec.Command("node", "--test", dir)
	command.Dir = dir
	command.Env = append(os.Environ(), "CANVASBACK_URL="+s.URL, "CANVASBACK_KEY="+string(s.RawKey),
		"CANVASBACK_FILES="+apitest.FilesURL, "CANVASBACK_OPERATIONS="+strings.Join(names, ","))
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	is.NoErr(err)
}
