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

// TestBanner_CommandsSucceed runs the commands of the banner in a shell, of a first
// start, and of a second with an admin key that the terminal does not know.
func TestBanner_CommandsSucceed(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("curl is not installed")
	}
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := startServer(t, map[string]string{"DATABASE_URL": databaseURL})
		text := runBanner(t, s.banner, "")
		is.True(strings.Contains(text, `[{"id":1,"name":"P&ID symbols"}]`))
		is.NoErr(s.stop())

		secret, raw := s.bannerKeys()
		is.Equal(strings.Count(s.banner, secret), 1)
		is.Equal(strings.Count(s.banner, raw), 1)
		is.True(!strings.Contains(s.log.String(), secret))
		is.True(!strings.Contains(s.log.String(), raw[10:]))
		if databaseURL == "memory:" {
			return
		}

		s = startServer(t, map[string]string{"DATABASE_URL": databaseURL, "ADMIN_API_KEY": firstAdminKey + "," + secondAdminKey})
		runBanner(t, s.banner, secondAdminKey)
		is.True(!strings.Contains(s.banner, firstAdminKey))
		is.NoErr(s.stop())
		s = startServer(t, map[string]string{"DATABASE_URL": databaseURL})
		runBanner(t, s.banner, "") // with a new admin key
	})
}

// shells run the commands of a banner. An interactive zsh takes comments for commands,
// which fail, so it must not stop at the first error.
var shells = map[string]string{"bash": "-eu", "zsh": "-fis"}

// runBanner runs the commands of a banner in each installed shell, and returns the
// output of bash.
func runBanner(t *testing.T, banner, adminKey string) (output string) {
	t.Helper()
	for shell, flags := range shells {
		if _, err := exec.LookPath(shell); err != nil && shell != "bash" {
			continue
		}
		text := runCommands(t, exec.CommandContext(t.Context(), shell, flags), banner, adminKey)
		if shell == "bash" {
			output = text
		}
	}
	return output
}

// runCommands runs the commands of a banner and returns their output. A terminal reads
// the line with the admin key, if there is one, before it pastes the rest.
func runCommands(t *testing.T, shell *exec.Cmd, banner, adminKey string) string {
	t.Helper()
	is := is.New(t)
	dir := t.TempDir()
	shell.Dir = dir
	before, script, _ := strings.Cut(banner, "Paste into another terminal:")
	script, _, _ = strings.Cut(script, "Stop with")
	const enter = "  read -rs ADMIN_API_KEY\n"
	is.Equal(strings.Contains(before, enter), adminKey != "")
	if adminKey != "" {
		script = enter + adminKey + "\n" + script
	}
	// Without the option interactivecomments, zsh runs a comment as a command: it
	// loses an assignment in front of one, and runs what follows a semicolon.
	is.True(!regexp.MustCompile(`(?m)\S[ \t]+#|^ *#.*;`).MatchString(script))
	shell.Stdin = strings.NewReader(script)
	out := must(shell.CombinedOutput())(t)
	text := string(out)
	for _, want := range []string{`"apiKey":"cbk_`, `"name":"P&ID symbols"`, `"name":"Gate valve"`, `"code":"unauthorized"`} {
		t.Log(want)
		is.True(strings.Contains(text, want))
	}
	pdf := must(os.ReadFile(filepath.Join(dir, "Pump datasheet.pdf")))(t)
	is.True(bytes.HasPrefix(pdf, []byte("%PDF-")))
	archive := must(zip.OpenReader(filepath.Join(dir, "canvas-exports.zip")))(t)
	defer archive.Close()
	is.Equal(len(archive.File), 3)
	return text
}
