// Package e2e tests the API and its console in a browser. It has tests only, so
// that importers of the module do not depend on the driver of the browser.
//
// CANVASBACK_TEST_BROWSER names the browser; by default it is a Chromium or
// Chrome in PATH. Without a browser the tests are skipped, or fail if CI=true.
package e2e
