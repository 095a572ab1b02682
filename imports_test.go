package canvasback

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

const (
	module = "example.com/canvasback"
	awsSDK = "github.com/aws/aws-sdk-go-v2"
)

// importRule lists the imports of a package's shipped files. A path is a prefix:
// it covers the package and everything below it.
type importRule struct {
	pkg    string
	may    []string // allowed outside the standard library
	never  []string // denied in the standard library
	reason string
}

var importRules = []importRule{
	{
		pkg:    "keys",
		may:    []string{module + "/keys/internal/pagetoken", module + "/symbols/fresh", "golang.org/x/sync/singleflight"},
		never:  []string{"net/http", "encoding/json", "database/sql"},
		reason: "a domain depends on neither HTTP nor JSON nor a database",
	},
	{
		pkg:    "keys/internal/revocation",
		reason: "it contains tests only, so that importers of package keys do not depend on the linearizability checker",
	},
	{
		pkg:    "keys/internal/pagetoken",
		may:    []string{"github.com/go-json-experiment/json"},
		never:  []string{"net", "context", "database/sql"},
		reason: "a token is JSON with a signature; it knows no keys and no store",
	},
	{
		pkg:    "symbols/fresh",
		never:  []string{"net/http", "encoding/json", "database/sql"},
		reason: "it shares reads of any store, for packages keys and symbols",
	},
	{
		pkg:    "symbols",
		may:    []string{module + "/symbols/fresh", "github.com/go-json-experiment/json/jsontext"},
		never:  []string{"net/http", "encoding/json", "database/sql"},
		reason: "a domain depends on neither HTTP nor a database; of JSON it checks only the syntax of meta",
	},
	{
		pkg:    "symbols/picture",
		may:    []string{"github.com/go-json-experiment/json", "golang.org/x/text/"},
		never:  []string{"net/http", "database/sql"},
		reason: "it decodes images and knows no records",
	},
	{
		pkg:    "symbols/bundle",
		may:    []string{module + "/symbols", module + "/symbols/picture", module + "/exports/filename", "github.com/go-json-experiment/json", "golang.org/x/text/"},
		never:  []string{"net/http", "database/sql"},
		reason: "it encodes and decodes archives; its JSON is the manifest and the symbol data of viewers",
	},
	{
		pkg:    "exports",
		may:    []string{module + "/exports/filename", module + "/exports/internal", "golang.org/x/sync"},
		never:  []string{"net/http", "database/sql"},
		reason: "a domain depends on neither HTTP nor a database; its JSON is the manifest in a zip and the plan of a link",
	},
	{
		pkg:    "exports/internal/filefacts",
		never:  []string{"net", "os", "database/sql"},
		reason: "it compares bytes with what is known, and knows neither openers nor archives",
	},
	{
		pkg:    "exports/internal/prefetch",
		may:    []string{"golang.org/x/sync/errgroup"},
		never:  []string{"net", "archive/zip", "database/sql"},
		reason: "prefetching knows open files, not where they come from or go to",
	},
	{
		pkg:    "exports/internal/zipstream",
		never:  []string{"net", "os", "context", "database/sql"},
		reason: "the layout of an archive is arithmetic, and writing it needs an io.Writer only",
	},
	{
		pkg:    "exports/filename",
		may:    []string{"golang.org/x/text/"},
		never:  []string{"net/http", "database/sql"},
		reason: "it only processes text",
	},
	{
		pkg:    "exports/ziptest",
		never:  []string{"net/http", "database/sql"},
		reason: "it only decodes archives",
	},
	{
		pkg:    "exports/files",
		may:    []string{module + "/exports"},
		never:  []string{"net/http", "database/sql"},
		reason: "it reads local files only",
	},
	{
		pkg:    "exports/fetch",
		may:    []string{module + "/exports", "code.dny.dev/ssrf", "golang.org/x/net/idna", "golang.org/x/text/encoding/charmap"},
		never:  []string{"database/sql"},
		reason: "an opener depends on neither the HTTP API nor a storage driver",
	},
	{
		pkg:    "exports/s3",
		may:    []string{module + "/exports", awsSDK + "/aws", awsSDK + "/aws/signer/v4", "github.com/aws/smithy-go/encoding/httpbinding"},
		never:  []string{"database/sql"},
		reason: "it needs the signer, the credentials interface and the escaping of the AWS SDK, and package fetch sends its requests",
	},
	{
		pkg: "httpapi",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports",
			module + "/httpapi/client", module + "/httpapi/internal/accept", module + "/httpapi/internal/auth",
			module + "/httpapi/internal/bodies", module + "/httpapi/internal/budget", module + "/httpapi/internal/linkserve",
			module + "/symbols/picture", module + "/httpapi/internal/ranges", module + "/httpapi/internal/stream",
			module + "/httpapi/internal/turns", "github.com/google/uuid", "github.com/go-json-experiment/json",
		},
		never:  []string{"database/sql"},
		reason: "the handler calls services and never a storage driver",
	},
	{
		pkg:    "httpapi/internal/budget",
		never:  []string{"net/http", "database/sql"},
		reason: "the budget knows no requests",
	},
	{
		pkg:    "httpapi/internal/turns",
		never:  []string{"net/http", "database/sql"},
		reason: "it knows neither requests nor what they do",
	},
	{
		pkg:    "httpapi/internal/auth",
		may:    []string{module + "/keys", module + "/httpapi/internal/turns", "golang.org/x/crypto/bcrypt"},
		never:  []string{"net/http", "database/sql"},
		reason: "a credential goes in, an identity or an error comes out; it knows no routes and writes no response",
	},
	{
		pkg: "httpapi/internal/bodies",
		may: []string{
			module + "/symbols", module + "/exports/filename", module + "/httpapi/internal/budget", module + "/symbols/picture",
			"github.com/go-json-experiment/json", "golang.org/x/sync/singleflight",
		},
		never:  []string{"net/http", "database/sql"},
		reason: "it encodes what a service returns, and knows neither requests nor entity tags",
	},
	{
		pkg:    "httpapi/internal/accept",
		never:  []string{"os", "context", "database/sql"},
		reason: "it evaluates headers; the API and the console use it",
	},
	{
		pkg:    "httpapi/internal/ranges",
		never:  []string{"os", "context", "database/sql"},
		reason: "RFC 9110 is arithmetic over headers; net/http is for header values only",
	},
	{
		pkg:    "httpapi/internal/linkserve",
		may:    []string{module + "/exports", module + "/httpapi/internal/ranges", module + "/httpapi/internal/stream"},
		never:  []string{"encoding/json", "database/sql"},
		reason: "it serves links over HTTP, and knows neither keys nor routes",
	},
	{
		pkg:    "httpapi/internal/stream",
		never:  []string{"encoding/json", "database/sql"},
		reason: "it streams bytes over connections and knows no routes, keys or records",
	},
	{
		pkg: "httpapi/apitest",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports", module + "/httpapi", module + "/storage/memory",
		},
		never:  []string{"database/sql"},
		reason: "it is an application that stores its data in memory",
	},
	{
		pkg:    "httpapi/conform",
		never:  []string{"database/sql"},
		reason: "it tests a server from outside, so it knows no code of it",
	},
	{
		pkg:    "httpapi/internal/contract",
		reason: "it contains tests only, so that importers do not depend on the OpenAPI validator",
	},
	{
		pkg:    "httpapi/client",
		never:  []string{"net/http", "os"},
		reason: "it is embedded files, which the API and the console serve",
	},
	{
		pkg:    "httpapi/console",
		may:    []string{module + "/httpapi/client", module + "/httpapi/internal/accept"},
		never:  []string{"encoding/json", "database/sql"},
		reason: "the console is static files that call the public API",
	},
	{
		pkg:    "httpapi/internal/e2e",
		never:  []string{"net/http", "database/sql"},
		reason: "it contains tests only, so that importers do not depend on the browser driver",
	},
	{
		pkg:    "storage",
		reason: "it contains documentation only",
	},
	{
		pkg:    "storage/internal/migration",
		reason: "it orders migration files and runs no SQL",
	},
	{
		pkg:    "storage/internal/paging",
		reason: "it is arithmetic over limits and runs no SQL",
	},
	{
		pkg:    "storage/internal/keyrecord",
		may:    []string{module + "/keys"},
		never:  []string{"database/sql"},
		reason: "it compares records and runs no SQL",
	},
	{
		pkg: "storage/internal/sqlstore",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal/keyrecord",
			module + "/storage/internal/paging", "database/sql",
		},
		reason: "it has statements for each SQL database, and only the error of package database/sql",
	},
	{
		pkg:    "storage/internal/drivertest",
		reason: "it contains tests only, so that drivers do not depend on each other, nor importers on the linearizability checker",
	},
	{
		pkg:    "storage/testflag",
		reason: "it has a flag that the tests of several packages share",
	},
	{
		pkg:    "storage/storagetest",
		may:    []string{module + "/keys", module + "/symbols", module + "/exports", module + "/storage/testflag"},
		never:  []string{"net/http", "database/sql"},
		reason: "a driver that runs the suite must not depend on another driver",
	},
	{
		pkg:    "storage/memory",
		may:    []string{module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal"},
		never:  []string{"net/http", "database/sql"},
		reason: "drivers do not depend on each other",
	},
	{
		pkg:    "storage/sqlite",
		may:    []string{module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal"},
		never:  []string{"net/http"},
		reason: "the application chooses the SQLite driver",
	},
	{
		pkg: "storage/postgres",
		may: []string{
			module + "/keys", module + "/symbols", module + "/exports", module + "/storage/internal",
			module + "/storage/postgres/internal/fence", "github.com/jackc/pgx/v5",
			"golang.org/x/sync/singleflight",
		},
		never:  []string{"net/http", "database/sql"},
		reason: "drivers do not depend on each other",
	},
	{
		pkg:    "storage/postgres/internal/fence",
		may:    []string{"github.com/jackc/pgx/v5"},
		never:  []string{"net/http", "database/sql"},
		reason: "it knows the protocol of PostgreSQL, and neither a pool nor a record",
	},
	{
		pkg:    "storage/postgres/pgtest",
		may:    []string{"github.com/jackc/pgx/v5"},
		never:  []string{"net/http"},
		reason: "it only starts PostgreSQL servers for tests",
	},
}

// TestImports checks the direct imports of every package against importRules.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range goList(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" || strings.HasPrefix(name, "examples/") {
			continue // the root has no code, and examples are applications
		}
		if !hasPrefix([]string{"exports", "httpapi", "keys", "storage", "symbols"}, name) {
			t.Errorf("package %s is at the top level, which has no further directories", name)
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
				t.Errorf("%s imports %s: %s", name, path, rule.reason)
			}
			if path == "github.com/matryer/is" {
				t.Errorf("%s imports %s outside its tests", name, path)
			}
		}
	}
	for _, rule := range importRules {
		if !seen[rule.pkg] {
			t.Errorf("import rule for %s: no such package", rule.pkg)
		}
	}
}

// TestImports_AWSIsOptional checks that only programs that open objects contain the
// AWS SDK.
func TestImports_AWSIsOptional(t *testing.T) {
	for _, p := range goList(t) {
		if strings.HasPrefix(p.ImportPath, module+"/examples/") || p.ImportPath == module+"/exports/s3" {
			continue
		}
		for _, path := range p.Deps {
			if hasPrefix([]string{awsSDK, module + "/exports/s3"}, path) {
				t.Errorf("%s depends on %s", p.ImportPath, path)
			}
		}
	}
}

// TestImports_NoTemplates checks that no program contains a package whose calls of methods
// by name make the linker keep the exported methods of all types.
func TestImports_NoTemplates(t *testing.T) {
	for _, p := range goList(t) {
		if slices.Contains(p.Deps, "text/template") {
			t.Errorf("%s depends on text/template", p.ImportPath)
		}
	}
}

// hasPrefix reports whether path equals one of the prefixes or is below it.
func hasPrefix(prefixes []string, path string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
	})
}

// listedPackage is the part of go list's output that the test reads.
type listedPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string // Imports, their imports, and so on
}

// goList returns all packages of the module.
func goList(t *testing.T) []listedPackage {
	t.Helper()
	is := is.New(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...").Output()
	is.NoErr(err)
	var list []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		is.NoErr(err)
		list = append(list, p)
	}
}
