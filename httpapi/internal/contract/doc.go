// Package contract tests that httpapi does what its description says
// (httpapi/openapi.json), and that the description leaves nothing out.
//
// All that the tests of package httpapi send, and all that the tests here
// provoke, is compared with the document, and every operation, status, header,
// media type and example of the document must have been met in the end. No
// program imports this package, so the validator that it needs comes to none.
package contract
