package httpapi

import (
	_ "embed"
	"io"
	"net/http"
	"strconv"
)

// document describes the API in OpenAPI 3.1. Tests compare it with the handler.
//
// Its server URL is ".", which OpenAPI resolves against the URL of the document, so
// it does not depend on where the handler is mounted. The resolved URL ends in a
// slash and each path begins with one; clients drop one of them.
//
//go:embed openapi.json
var document string

// OpenAPI returns the OpenAPI document that the handler serves at /openapi.json.
// The caller owns the slice.
func OpenAPI() []byte { return []byte(document) }

func serveDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	io.WriteString(w, document) // an error means that the client has disconnected
	return nil
}
