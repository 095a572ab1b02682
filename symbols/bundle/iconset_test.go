package bundle_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols/bundle"
	"example.com/canvasback/symbols/picture"
)

// iconSetFile returns the file of an npm package @iconify-json/... in the directory that
// CANVASBACK_TEST_ICONS names. It skips the test if there is none, but not with CI=true.
func iconSetFile(t *testing.T, name string) []byte {
	t.Helper()
	directory := os.Getenv("CANVASBACK_TEST_ICONS")
	content, err := os.ReadFile(filepath.Join(directory, name, "icons.json"))
	switch {
	case err == nil:
		return content
	case os.Getenv("CI") == "true":
		t.Fatalf("no icon set: CANVASBACK_TEST_ICONS must be node_modules/@iconify-json: %v", err)
	}
	t.Skip("no icon set: set CANVASBACK_TEST_ICONS to node_modules/@iconify-json")
	return nil
}

// TestRead_PublishedIconSets imports icon sets as they are published, and counts each icon.
func TestRead_PublishedIconSets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ imported, hidden int }{ // of the versions in .ci/run
		"mdi":    {13_782, 219}, // 28 of the hidden icons are aliases of hidden ones
		"tabler": {6_414, 48},
		"logos":  {2_073, 239},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			content := iconSetFile(t, name)
			type icon struct {
				Body, Parent string
				Hidden       bool
			}
			var set struct{ Icons, Aliases map[string]icon }
			is.NoErr(json.Unmarshal(content, &set))
			contents := readLibrary(t, string(content), &bundle.Options{Skip: true})
			is.Equal(contents.Skipped, nil)
			is.Equal(len(contents.Files), want.imported)
			is.Equal(len(contents.Ignored), want.hidden)
			is.Equal(len(contents.Files)+len(contents.Ignored), len(set.Icons)+len(set.Aliases))

			seen := make(map[string]bool)
			for _, file := range contents.Files {
				symbol := file.Symbol
				is.True(!seen[symbol.Name])
				seen[symbol.Name] = true
				found := set.Aliases[symbol.Name]
				parent := cmp.Or(found.Parent, symbol.Name)
				for found.Body == "" && !found.Hidden && parent != "" {
					found = cmp.Or(set.Icons[parent], set.Aliases[parent])
					parent = found.Parent
				}
				is.True(found.Body != "" && !found.Hidden)
				image, ok := picture.Find(symbol.Data)
				is.True(ok)
				is.Equal(image.Type, symbol.Type)
				is.True(strings.Contains(string(image.Content), found.Body))
				is.True(strings.Contains(symbol.Meta, `"width":`))
			}
		})
	}
}
