package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// axeScript returns the source of axe-core, an accessibility checker, from the file
// that CANVASBACK_TEST_AXE names.
func axeScript() (string, error) {
	name := os.Getenv("CANVASBACK_TEST_AXE")
	if name == "" {
		return "", errors.New("no axe-core: set CANVASBACK_TEST_AXE to axe.min.js of the npm package axe-core")
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("axe-core: %w", err)
	}
	return string(content), nil
}

// violations returns what axe-core finds on the page, of any severity. Without rules,
// it checks all.
func (b *tab) violations(name, script string, rules ...string) []string {
	b.t.Helper()
	if !eval[bool](b, `"axe" in window`) {
		eval[any](b, script+`; null`)
	}
	only := ""
	if len(rules) > 0 {
		only = `runOnly: ` + quote(strings.Join(rules, " ")) + `.split(" "), `
	}
	list := eval[[]string](b, `axe.run(document, { `+only+`resultTypes: ["violations"] }).then(({ violations }) =>
		violations.map((one) => one.impact + " " + one.id + ": " + one.nodes.slice(0, 3).map((node) => node.target.join(" ") + " (" + (node.any[0] ?? node.all[0] ?? node.none[0])?.message + ")").join(", ")))`)
	for i := range list {
		list[i] = name + ": " + list[i]
	}
	return list
}

// reportViolations runs a subtest that fails if there are violations, or if axe-core
// is missing.
func reportViolations(t *testing.T, violations []string, scriptErr error) {
	t.Helper()
	t.Run("axe", func(t *testing.T) {
		if scriptErr != nil && os.Getenv("CI") != "true" {
			t.Skip("SKIPPED, NOTHING WAS TESTED: " + scriptErr.Error())
		}
		is.New(t).NoErr(scriptErr)
		for _, violation := range violations {
			t.Error(violation)
		}
	})
}
