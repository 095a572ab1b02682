package httpapi_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// TestLinks_ClientsResume continues a download with programs that users have. One
// that is not installed is skipped.
func TestLinks_ClientsResume(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{})
	for _, name := range []string{"a", "b", "c"} {
		l.add(name, strings.Repeat(name+largeContent, 2))
	}
	_, path := l.create(batchBody("a", "b", "c", "missing"))
	want := l.send("GET", path, "").want(200).body
	for name, args := range map[string][]string{
		"curl":   {"-sS", "--fail", "-C", "-", "-o", "canvas-exports.zip", l.url + path},
		"wget":   {"-q", "-c", l.url + path},
		"aria2c": {"-q", "-c", "-x8", "-s8", "-k1M", l.url + path},
	} {
		for _, have := range []int{0, 1, len(want) / 3, len(want) - 1} {
			t.Run(name, func(t *testing.T) {
				if _, err := exec.LookPath(name); err != nil {
					t.Skip(err)
				}
				is := is.New(t)
				dir := t.TempDir()
				file := filepath.Join(dir, "canvas-exports.zip")
				if have > 0 {
					is.NoErr(os.WriteFile(file, want[:have], 0o600))
				}
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				t.Logf("%s", out)
				is.NoErr(err)
				got, err := os.ReadFile(file)
				is.NoErr(err)
				is.True(bytes.Equal(got, want))
			})
		}
	}
}
