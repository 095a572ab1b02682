package canvasback

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReadme_ProgramCompilesAndMatchesExample(t *testing.T) {
	t.Parallel()
	program, open := readmePrograms(t)
	for name, text := range map[string]string{"the program": program, "the durable program": durable(t, program, open)} {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%s of README.md: %v\n%s", name, err, out)
		}
	}

	// They differ at the end: the program serves, the example sends a request.
	body := between(t, program, "func main() {\n", "\tlog.Print(")
	example := between(t, read(t, "example_test.go"), "func Example() {\n", "\trequest :=")
	if body != example {
		t.Errorf("README.md has\n%s\nbut the example has\n%s", body, example)
	}
}

// readmePrograms returns the Go code in README.md: a program, and a function that
// replaces its storage.
func readmePrograms(t *testing.T) (program, open string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of Go, want 2", len(blocks))
	}
	return blocks[0][1], blocks[1][1]
}

// durable does what README.md says to keep the data of the program.
func durable(t *testing.T, program, open string) string {
	t.Helper()
	for _, edit := range [][2]string{
		{"db := memory.New() //", "db := open(ctx, \"canvasback.db\") //"},
		{"\"example.com/canvasback/storage/memory\"", "\"example.com/canvasback/storage/sqlite\"\n\t_ \"modernc.org/sqlite\""},
		{"import (\n", "import (\n\t\"database/sql\"\n"},
	} {
		if strings.Count(program, edit[0]) != 1 {
			t.Fatalf("README.md's program lacks %q", edit[0])
		}
		program = strings.Replace(program, edit[0], edit[1], 1)
	}
	return program + "\n" + open
}

// TestReadme_ImporterCanBuildProgram follows README.md in a new module and checks
// which modules that module requires.
func TestReadme_ImporterCanBuildProgram(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	commands := between(t, readme, "```sh\ngo mod edit", "```")
	program := between(t, readme, "```go\n", "```")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "go mod init app.example/viewer && go mod edit" + strings.ReplaceAll(commands, "=../canvasback", "="+here) + " && go build -o viewer ."
	script = strings.ReplaceAll(script, "\n", " ")
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
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 160 {
		t.Errorf("README.md has %d lines, want at most 160", lines)
	}
}

// TestDocs_LinksResolve checks the files and headings that the documents link to.
func TestDocs_LinksResolve(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"} {
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
	if err != nil {
		t.Fatal(err)
	}
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
