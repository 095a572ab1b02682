// Package e2e tests the API and its console in a browser. It has tests only, so
// that importers of the module do not depend on the driver of the browser.
//
// CANVASBACK_TEST_BROWSER names the browser; by default it is a Chromium or
// Chrome in PATH. One test needs firefox-esr or firefox in PATH. CANVASBACK_TEST_AXE
// names the file axe.min.js of the npm package axe-core, an accessibility checker.
// Tests without theirs are skipped, or fail if CI=true.
package e2e_test
