package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
)

// partialServerTests have servers without some paths of the document.
var partialServerTests = []string{"TestRoutes_MissingServiceIs404", "TestRoutes_Optional", "TestExports_RegisterWith"}

// applicationRouteTests have servers with routes of an application.
var applicationRouteTests = []string{
	"TestAuthenticate", "TestAuthenticate_WithoutProtection", "TestAuthenticate_SharesTheRateLimit",
	"TestRequireScope", "TestAuthenticateAdmin",
	"TestTokens_OwnRoutes", "TestHideKeys_TokenInURL", "TestPanic_InMiddlewareIs500", "TestDenied_ReleasesMemory",
	"TestObserve_HandlerOutlastsMiddleware",
}

// TestContract_ServerAndDocumentAgree checks all exchanges against the document,
// and that they cover it.
func TestContract_ServerAndDocumentAgree(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	is := is.New(t)
	doc := loadDocument(t)
	exchanges := recorded(t)
	t.Logf("%d requests from package httpapi", len(exchanges))
	exchanges = slices.Concat(exchanges, sendFailures(t, doc), sendExamples(t, doc), sendUnknown(t, doc), sendScenarios(t, doc), sendConform(t))
	t.Logf("%d requests in total", len(exchanges))

	for _, name := range slices.Concat(partialServerTests, applicationRouteTests) {
		t.Log(name)
		is.True(slices.ContainsFunc(exchanges, func(e exchange) bool { return e.Test == name }))
	}

	covered := newCoverage(doc)
	t.Run("exchanges match the document", func(t *testing.T) {
		examples := make(map[string]exchange) // one of each problem
		for _, e := range exchanges {
			if slices.Contains(applicationRouteTests, e.Test) {
				continue
			}
			c := doc.check(e)
			if slices.Contains(partialServerTests, e.Test) && c.problems != nil {
				switch c = (check{}); e.Status {
				case 404:
					c.response(e, 404, doc.noOperation("not_found"))
				case 405:
					c.response(e, 405, doc.noOperation("method_not_allowed", "Allow"))
				}
			}
			for _, problem := range c.problems {
				examples[fmt.Sprintf("%s %d: %s", c.op, e.Status, problem)] = e
			}
			covered.add(c.op, e)
		}
		for _, problem := range slices.Sorted(maps.Keys(examples)) {
			t.Error(problem + "; " + examples[problem].String())
		}
	})
	t.Run("exchanges cover the document", func(t *testing.T) {
		for _, missing := range covered.missing() {
			t.Error(missing)
		}
	})
}

// recorded runs the tests of package httpapi and returns the exchanges of their
// harness. Tests that abort or stall a connection of their own are not recorded.
func recorded(t *testing.T) (list []exchange) {
	t.Helper()
	is := is.New(t)
	// The go command caches a test result until a file that the test opened
	// changes, but does not see the files of subprocesses.
	_, err := os.ReadDir("../..")
	is.NoErr(err)
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=15m", "-parallel=8",
		// These measure goroutines and heap size, with clients of their own, or send
		// thousands of requests, or very long ones, that others send as well, or send
		// them to another storage.
		"-skip=^(TestExports_ClientDisconnects|TestSymbolList_.*LongList.*|TestCompression_LongLists|TestVariants_.*|TestMemoryBudget_.*|TestScopes_AllRoutes|TestAuth_AllRoutesAndCredentials|TestConcurrency_.*|TestConnection_.*|TestLimits|TestStall_.*|Fuzz.*|Example.*)$|^Test.*/postgres$",
		"example.com/canvasback/httpapi")
	command.Env = append(os.Environ(), "CANVASBACK_TEST_EXCHANGES="+dir, "CI=") // CI runs the thorough tests of httpapi by themselves
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "exchanges.jsonl"))
	is.NoErr(err)
	for dec := json.NewDecoder(bytes.NewReader(lines)); ; {
		dec.DisallowUnknownFields()
		var e exchange
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return list
		}
		is.NoErr(err)
		list = append(list, e)
	}
}
