package httpapi

import (
	_ "embed"
	"io"
	"net/http"
	"strconv"
)

// document describes the API in OpenAPI 3.1. Tests hold it to what the handler
// does.
//
// Its one server is ".", which OpenAPI resolves against the address of the
// document: it is right wherever the handler is mounted. By the letter a path
// of the document then follows a slash that is already there. No relative
// address comes without that slash, and the clients that take the server from
// the document drop it, as OpenAPI's own examples do; generated ones are given
// the address by their user.
//
//go:embed openapi.json
var document string

// OpenAPI returns the description of the API that the handler serves at
// /openapi.json, for hosts that put it elsewhere too.
func OpenAPI() []byte { return []byte(document) }

func serveDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	io.WriteString(w, document) // a client that has left needs no answer
	return nil
}
