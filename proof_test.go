package canvasback

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProof_NamesExistingTests checks the tests that PROOF.md names.
func TestProof_NamesExistingTests(t *testing.T) {
	t.Parallel()
	declared := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
			declared[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, ".github/PROOF.md"), -1)
	if len(named) < 20 {
		t.Errorf("PROOF.md names %d tests", len(named))
	}
	for _, match := range named {
		if !declared[match[1]] {
			t.Errorf("PROOF.md names %s, which does not exist", match[1])
		}
	}
}
