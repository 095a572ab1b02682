// Package e2e tests the handler and its console in a real browser. It has no
// code of its own and nobody imports it, so the browser's driver reaches no
// importer of the module.
//
// The browser is the program that CANVASBACK_TEST_BROWSER names, or a Chromium
// or Chrome under one of its usual names. Without one the tests are skipped;
// with CI=true that is a failure.
package e2e
