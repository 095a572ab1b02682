package canvasback

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "example.com/canvasback"

// importRule says what the shipped files of a package may import beside the
// standard library, and what of the standard library they may not.
type importRule struct {
	pkg       string
	may       []string // prefixes of import paths
	never     []string // prefixes of standard library paths
	becauseOf string
}

var importRules = []importRule{
	{
		pkg:       "keys",
		never:     []string{"net/http", "encoding/json", "database/sql"},
		becauseOf: "a domain knows neither the wire nor a database",
	},
	{
		pkg:       "symbols",
		never:     []string{"net/http", "encoding/json", "database/sql"},
		becauseOf: "a domain knows neither the wire nor a database",
	},
	{
		pkg:       "symbols/bundle",
		may:       []string{module + "/symbols", module + "/exports/filename"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "a zip of symbols is bytes; the JSON in it is that of its manifest and of viewers",
	},
	{
		pkg:       "exports",
		may:       []string{module + "/exports/filename"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "a domain knows neither the wire nor a database; the JSON in it is that of a zip's manifest",
	},
	{
		pkg:       "exports/filename",
		may:       []string{"golang.org/x/text/"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "a name is text",
	},
	{
		pkg:       "exports/ziptest",
		never:     []string{"net/http", "database/sql"},
		becauseOf: "an archive is bytes",
	},
	{
		pkg:       "exports/files",
		may:       []string{module + "/exports"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "a file is not fetched",
	},
	{
		pkg:       "exports/fetch",
		may:       []string{module + "/exports", "code.dny.dev/ssrf", "golang.org/x/net/idna"},
		never:     []string{"database/sql"},
		becauseOf: "an opener stands below the handler and beside the storage",
	},
	{
		pkg: "httpapi",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports",
			"github.com/google/uuid", "github.com/go-json-experiment/json",
		},
		never:     []string{"database/sql"},
		becauseOf: "the handler knows services, not where they keep things",
	},
	{
		pkg: "httpapi/apitest",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports", module + "/httpapi", module + "/storage/memory",
		},
		never:     []string{"database/sql"},
		becauseOf: "it is a host, and one without a database",
	},
	{
		pkg:       "httpapi/internal/contract",
		becauseOf: "it is tests alone, so that no importer meets the validator they need",
	},
	{
		pkg:       "httpapi/console",
		never:     []string{"encoding/json", "database/sql"},
		becauseOf: "the console is files, and uses the API as anyone does",
	},
	{
		pkg:       "httpapi/internal/e2e",
		never:     []string{"net/http", "database/sql"},
		becauseOf: "tests need a browser's driver, and nobody else does",
	},
	{
		pkg:       "storage",
		becauseOf: "the package is prose",
	},
	{
		pkg:       "storage/internal/migration",
		becauseOf: "it orders files and runs no SQL",
	},
	{
		pkg:       "storage/internal/linear",
		becauseOf: "it has tests only, so that no importer meets what they need",
	},
	{
		pkg:       "storage/storagetest",
		may:       []string{module + "/keys", module + "/symbols", module + "/exports"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "a driver's author gets a test suite and nothing else",
	},
	{
		pkg:       "storage/memory",
		may:       []string{module + "/keys", module + "/symbols", module + "/exports"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "drivers do not know each other",
	},
	{
		pkg:       "storage/sqlite",
		may:       []string{module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal"},
		never:     []string{"net/http"},
		becauseOf: "the host chooses the SQLite driver",
	},
	{
		pkg:       "storage/postgres",
		may:       []string{module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal", "github.com/jackc/pgx/v5"},
		never:     []string{"net/http", "database/sql"},
		becauseOf: "drivers do not know each other",
	},
	{
		pkg:       "storage/postgres/pgtest",
		may:       []string{"github.com/jackc/pgx/v5"},
		never:     []string{"net/http"},
		becauseOf: "a database for tests needs no more",
	},
}

// TestImports fails on an import that would turn the package graph upside
// down. It looks at direct imports: the closure of an allowed one is its own
// affair, and among our packages every edge is looked at anyway.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range goList(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" || strings.HasPrefix(name, "examples/") {
			continue // the root has no code, and examples are hosts
		}
		seen[name] = true
		i := slices.IndexFunc(importRules, func(r importRule) bool { return r.pkg == name })
		if i < 0 {
			t.Errorf("package %s has no import rule", name)
			continue
		}
		rule := importRules[i]
		for _, path := range p.Imports {
			standard := !strings.Contains(strings.Split(path, "/")[0], ".")
			switch {
			case standard && hasPrefix(rule.never, path), !standard && !hasPrefix(rule.may, path):
				t.Errorf("%s imports %s: %s", name, path, rule.becauseOf)
			}
			if path == "github.com/matryer/is" {
				t.Errorf("%s imports %s outside its tests", name, path)
			}
		}
	}
	for _, rule := range importRules {
		if !seen[rule.pkg] {
			t.Errorf("there is a rule for %s, but no such package", rule.pkg)
		}
	}
}

// hasPrefix reports whether path is one of the prefixes or below it.
func hasPrefix(prefixes []string, path string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
	})
}

type listed struct {
	ImportPath string
	Imports    []string
}

func goList(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal("go list:", err)
	}
	var list []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
