// Package contract tests that httpapi and its description, openapi.json, agree.
//
// It compares every request of the tests of package httpapi and of conform, and those
// that it sends itself, with the document. It then requires that they cover
// every operation, status, header, media type and example of the document.
//
// The package has tests only, so that importers of the module do not depend on
// the OpenAPI validator.
package contract
