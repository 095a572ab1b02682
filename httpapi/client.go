package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"sync"

	jsclient "example.com/canvasback/httpapi/client"
	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/ranges"
)

// clientFile returns an endpoint for a file of package client. Its ETag is the same in
// all processes of a version.
func clientFile(name, mediaType string) endpoint {
	content, err := fs.ReadFile(jsclient.Files, name)
	if err != nil {
		panic(err) // the file is embedded
	}
	digest := sha256.Sum256(content)
	plainTag := hex.EncodeToString(digest[:16])
	compressed := sync.OnceValue(func() []byte { return bodies.Gzip(content) })
	return func(c *call) error {
		header, body, tag := c.w.Header(), content, plainTag
		isGzip := c.compressible()
		if isGzip {
			body, tag = compressed(), tag+".gz"
		}
		header.Set("Cache-Control", "no-cache")
		header.Set("ETag", `"`+tag+`"`)
		if ranges.ParseTags(c.r.Header["If-None-Match"]).MatchWeak(ranges.Tag{Opaque: tag}) {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if isGzip {
			header.Set("Content-Encoding", "gzip")
		}
		c.writeAs(mediaType, http.StatusOK, body)
		return nil
	}
}
