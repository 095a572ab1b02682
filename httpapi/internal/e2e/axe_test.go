package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// axe is axe-core, an accessibility checker.
type axe struct {
	script     string
	err        error    // if there is no script
	violations []string // that were found
}

// newAxe reads the file that CANVASBACK_TEST_AXE names.
func newAxe() *axe {
	script, err := os.ReadFile(os.Getenv("CANVASBACK_TEST_AXE"))
	if err != nil {
		err = fmt.Errorf("no axe-core: set CANVASBACK_TEST_AXE to axe.min.js of the npm package axe-core: %w", err)
	}
	return &axe{script: string(script), err: err}
}

// check adds the violations of any severity on the page. Without rules, it checks all.
func (a *axe) check(b *tab, name string, rules ...string) {
	b.t.Helper()
	if a.err != nil {
		return
	}
	if !eval[bool](b, `"axe" in window`) {
		eval[any](b, a.script+`; null`)
	}
	only := ""
	if len(rules) > 0 {
		only = `runOnly: ` + quote(strings.Join(rules, " ")) + `.split(" "), `
	}
	list := eval[[]string](b, `axe.run(document, { `+only+`resultTypes: ["violations"] }).then(({ violations }) =>
		violations.map((one) => one.impact + " " + one.id + ": " + one.nodes.slice(0, 3).map((node) => node.target.join(" ") + " (" + (node.any[0] ?? node.all[0] ?? node.none[0])?.message + ")").join(", ")))`)
	for _, violation := range list {
		a.violations = append(a.violations, name+": "+violation)
	}
}

// report runs a subtest that fails if there are violations, or if axe-core is missing.
func (a *axe) report(t *testing.T) {
	t.Helper()
	t.Run("axe", func(t *testing.T) {
		if a.err != nil && os.Getenv("CI") != "true" {
			t.Skip("SKIPPED, NOTHING WAS TESTED: " + a.err.Error())
		}
		is.New(t).NoErr(a.err)
		for _, violation := range a.violations {
			t.Error(violation)
		}
	})
}
