package canvasback

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReadme_programCompilesAndIsTheExample(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d Go programs, want one", len(blocks))
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, []byte(blocks[0][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", program).CombinedOutput(); err != nil {
		t.Errorf("README.md's program: %v\n%s", err, out)
	}

	// All but the end, where the program serves and the example asks.
	body := between(t, blocks[0][1], "func main() {\n", "\tfmt.Println(")
	example := between(t, read(t, "example_test.go"), "func Example() {\n", "\trequest :=")
	if body != example {
		t.Errorf("README.md has\n%s\nbut the example has\n%s", body, example)
	}
}

func TestReadme_isShortAndItsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	if lines := strings.Count(readme, "\n"); lines > 150 {
		t.Errorf("README.md has %d lines", lines)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(readme, -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.FromSlash(link[1])); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// between returns what of text lies between two marks.
func between(t *testing.T, text, start, end string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, start)
	text, _, ok2 := strings.Cut(text, end)
	if !ok || !ok2 {
		t.Fatalf("nothing between %q and %q", start, end)
	}
	return text
}

// TestReadme_importersCanFollowIt does what README.md tells an importer to do,
// in a module of its own, and looks at what that module comes to need.
func TestReadme_importersCanFollowIt(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	steps := between(t, readme, "```sh\ngo mod edit", "```")
	program := between(t, readme, "```go\n", "```")
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "go mod init host.example/viewer && go mod edit" + strings.ReplaceAll(steps, "=../canvasback", "="+here) + " && go build -o viewer ."
	script = strings.ReplaceAll(script, "\n", " ")
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Dir = host
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content := read(t, filepath.Join(host, name))
		for _, tool := range []string{"kin-openapi", "chromedp", "porcupine"} {
			if strings.Contains(content, tool) {
				t.Errorf("an importer's %s has %s, which is for our own tests", name, tool)
			}
		}
	}
}
