package httpapi

import (
	_ "embed"
	"net/http"
	"sync"

	"example.com/canvasback/httpapi/internal/bodies"
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

var compressedDocument = sync.OnceValue(func() []byte { return bodies.Gzip(plainDocument) })

func serveDocument(c *call) error {
	if c.compressible() {
		c.w.Header().Set("Content-Encoding", "gzip")
		c.write(http.StatusOK, compressedDocument())
		return nil
	}
	c.write(http.StatusOK, plainDocument)
	return nil
}
