package httpapi

import (
	_ "embed"
	"net/http"
	"sync"
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

var plainDocument = []byte(document)

var compressedDocument = sync.OnceValue(func() []byte { return compress([]byte(document)) })

func (a *API) serveDocument(w http.ResponseWriter, r *http.Request) error {
	body := plainDocument
	if compressible(w, r) {
		body = compressedDocument()
		w.Header().Set("Content-Encoding", "gzip")
	}
	return a.sendJSON(w, r, body)
}
