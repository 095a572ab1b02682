package canvasback

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"
)

// The programs of README.md and of the example differ at the end: one serves, the other
// sends a request.
func TestReadme_ProgramMatchesExample(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	readme := read(t, "README.md")
	is.Equal(between(t, readme, "func main() {\n", "\tlog.Print("), between(t, read(t, "example_test.go"), "func Example() {\n", "\trequest :="))
	is.Equal(between(t, readme, "// resolve returns", "func must"), between(t, read(t, "example_test.go"), "// resolve returns", "func must"))
}

// TestReadme_ImporterCanBuildProgram follows README.md in a new module and checks
// which modules that module requires.
func TestReadme_ImporterCanBuildProgram(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	readme := read(t, "README.md")
	here, err := os.Getwd()
	is.NoErr(err)
	commands := between(t, readme, "```sh\ngo mod init viewer", "go run .\n```")
	program := between(t, readme, "```go\n", "```")
	dir := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	script := "set -e; go mod init viewer" + strings.ReplaceAll(commands, "=../canvasback", "="+here) + "go build -o viewer ."
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content := read(t, filepath.Join(dir, name))
		for _, module := range []string{"kin-openapi", "chromedp", "porcupine", "aws-sdk-go", "smithy-go"} {
			if strings.Contains(content, module) {
				t.Errorf("an importer's %s has %s, which its program does not use", name, module)
			}
		}
	}
}

func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 110 {
		t.Errorf("README.md has %d lines, want at most 110", lines)
	}
}

// TestDocs_LinesAreShort checks lines and the cells of tables.
func TestDocs_LinesAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range documents(t) {
		for i, line := range strings.Split(read(t, name), "\n") {
			if length := utf8.RuneCountInString(line); length > 160 {
				t.Errorf("%s:%d has %d characters, want at most 160", name, i+1, length)
			}
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(line, " | ") {
				if words := len(strings.Fields(cell)); words > 30 {
					t.Errorf("%s:%d has a cell of %d words, want at most 30", name, i+1, words)
				}
			}
		}
	}
}

// TestDocs_AgreeOnVersion compares the version of README.md with others.
func TestDocs_AgreeOnVersion(t *testing.T) {
	t.Parallel()
	version := between(t, read(t, "README.md"), "This is version ", ":")
	for name, want := range map[string]string{
		"CHANGELOG.md":                "## [" + version + "]",
		"httpapi/openapi.json":        `"version": "` + version + `"`, // the console shows it
		"examples/standalone/main.go": `const release = "` + version + `"`,
	} {
		if !strings.Contains(read(t, name), want) {
			t.Errorf("%s does not contain %s", name, want)
		}
	}
}

// documents returns README.md and the pages below .github.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(".github/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, "README.md")
}

// TestDocs_LinksResolve checks the files and headings that the documents link to.
func TestDocs_LinksResolve(t *testing.T) {
	t.Parallel()
	for _, name := range append(documents(t), "CHANGELOG.md") {
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, name), "") // code has no links
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			file, fragment, _ := strings.Cut(link[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(name), filepath.FromSlash(file))
			if file == "" {
				target = name
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
			} else if fragment != "" && !hasHeading(read(t, target), fragment) {
				t.Errorf("%s links to %s: no such heading", name, link[1])
			}
		}
	}
}

// hasHeading reports whether a Markdown text has a heading with this fragment.
func hasHeading(text, fragment string) bool {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-") == fragment {
			return true
		}
	}
	return false
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	is.New(t).NoErr(err)
	return string(content)
}

// between returns the part of text between the first start and the next end.
func between(t *testing.T, text, start, end string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, start)
	text, _, ok2 := strings.Cut(text, end)
	if !ok || !ok2 {
		t.Fatalf("no text between %q and %q", start, end)
	}
	return text
}
