package httpapi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"sync"

	jsclient "example.com/canvasback/httpapi/client"
	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/ranges"
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

// staticFile returns an endpoint for a file of the program. With cacheable it has an ETag,
// which is the same in all processes of a version.
func staticFile(content []byte, mediaType string, cacheable bool) endpoint {
	digest := sha256.Sum256(content)
	plainTag := hex.EncodeToString(digest[:16])
	compressed := sync.OnceValue(func() []byte { return bodies.Gzip(content) })
	return func(c *call) error {
		header, body, tag := c.w.Header(), content, plainTag
		isGzip := c.compressible()
		if isGzip {
			body, tag = compressed(), tag+".gz"
		}
		if cacheable {
			header.Set("Cache-Control", "no-cache")
			header.Set("ETag", `"`+tag+`"`)
			if ranges.ParseTags(c.r.Header["If-None-Match"]).Match(`"`+tag+`"`, true) {
				c.w.WriteHeader(http.StatusNotModified)
				return nil
			}
		}
		if isGzip {
			header.Set("Content-Encoding", "gzip")
		}
		c.write(mediaType, http.StatusOK, body)
		return nil
	}
}

// clientFile returns the endpoint of a file of package client.
func clientFile(name, mediaType string) endpoint {
	content, err := jsclient.Files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return staticFile(content, mediaType, true)
}
