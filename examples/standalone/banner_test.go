package main

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestBanner_CommandsSucceed runs the commands of the banner in a shell.
func TestBanner_CommandsSucceed(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := startServer(t, map[string]string{"DATABASE_URL": databaseURL})
		dir := t.TempDir()
		shell := exec.CommandContext(t.Context(), "bash", "-eu")
		shell.Dir = dir
		_, script, _ := strings.Cut(s.banner, "Paste into another terminal:")
		script, _, _ = strings.Cut(script, "Stop with")
		shell.Stdin = strings.NewReader(script)
		out, err := shell.CombinedOutput()
		is.NoErr(err)
		text := string(out)
		for _, want := range []string{`"apiKey":"cbk_`, `[{"id":1,"name":"P&ID symbols"}]`, `"name":"Gate valve"`, `"code":"unauthorized"`} {
			if !strings.Contains(text, want) {
				t.Errorf("output lacks %s:\n%.3000s", want, text)
			}
		}
		pdf, err := os.ReadFile(filepath.Join(dir, "Pump datasheet.pdf"))
		is.NoErr(err)
		is.True(bytes.HasPrefix(pdf, []byte("%PDF-")))
		archive, err := zip.OpenReader(filepath.Join(dir, "canvas-exports.zip"))
		is.NoErr(err)
		defer archive.Close()
		is.Equal(len(archive.File), 3)
		is.NoErr(s.stop())

		secret := regexp.MustCompile(`ADMIN_KEY=(\S+)`).FindStringSubmatch(s.banner)[1]
		is.Equal(strings.Count(s.banner, secret), 1)
		raw := regexp.MustCompile(`CLIENT_KEY=(cbk_\S+)`).FindStringSubmatch(s.banner)[1]
		is.Equal(strings.Count(s.banner, raw), 1)
		is.True(!strings.Contains(s.log.String(), secret))
		is.True(!strings.Contains(s.log.String(), raw[10:]))
	})
}
