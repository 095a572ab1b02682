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
)

// leftOut are the tests that set a server up without some paths of the
// document.
var leftOut = []string{"TestRoutes_ofAServiceThatIsMissingAreUnknown", "TestExports_whoMayRegister"}

// otherRoutes are the tests whose servers have routes of a host.
var otherRoutes = []string{"TestRequireClientKey_guardsTheHostsOwnRoutes"}

// TestExchanges_areAsDescribed compares everything with the document that the
// tests of package httpapi send and what is provoked here, and the other way
// round: nothing in the document may be left that was not met.
func TestExchanges_areAsDescribed(t *testing.T) {
	doc := loadDocument(t)
	exchanges := recorded(t)
	t.Logf("package httpapi has sent %d requests", len(exchanges))
	exchanges = slices.Concat(exchanges, provoke(t, doc), succeed(t, doc), stray(t, doc), stories(t, doc))
	t.Logf("with those provoked here there are %d", len(exchanges))

	for _, name := range slices.Concat(leftOut, otherRoutes) {
		if !slices.ContainsFunc(exchanges, func(e exchange) bool { return e.Test == name }) {
			t.Errorf("%s has sent nothing", name)
		}
	}

	seen := newSight(doc)
	t.Run("what is sent is described", func(t *testing.T) {
		examples := make(map[string]exchange) // of each problem one
		for _, e := range exchanges {
			if slices.Contains(otherRoutes, e.Test) {
				continue
			}
			v := doc.judge(e)
			if slices.Contains(leftOut, e.Test) && e.Status == 404 && v.problems != nil {
				v = verdict{}
				v.answer(e, 404, doc.notFound())
			}
			for _, problem := range v.problems {
				examples[fmt.Sprintf("%s %d: %s", v.op, e.Status, problem)] = e
			}
			seen.note(v.op, e)
		}
		for _, problem := range slices.Sorted(maps.Keys(examples)) {
			t.Error(problem + "; " + examples[problem].String())
		}
	})
	t.Run("what is described is sent", func(t *testing.T) {
		for _, missing := range seen.missing() {
			t.Error(missing)
		}
	})
}

// recorded runs the tests of package httpapi and returns what they have sent
// through their harness. What they send over connections of their own, to tear
// an answer or to stall, is not part of it.
func recorded(t *testing.T) (list []exchange) {
	t.Helper()
	// The go command keeps the outcome of a test as long as what it has looked
	// at is the same; of what a program does that it starts, nothing is known.
	if _, err := os.ReadDir("../.."); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=200s",
		// These measure what runs and how large the heap is, with clients of their own.
		"-skip=^(TestExports_clientLeaves|TestSymbolList_longOneNeedsNoMemory)$",
		"example.com/canvasback/httpapi")
	command.Env = append(os.Environ(), "CANVASBACK_TEST_EXCHANGES="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "exchanges.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(lines)); ; {
		dec.DisallowUnknownFields()
		var e exchange
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
}
