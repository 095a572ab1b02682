package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// TestErrorBody_InvalidRequestID is behind an application that copies the request id
// of the client to the response without checking it.
func TestErrorBody_InvalidRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	api := httpapi.Handler(&h.options)
	h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		api.ServeHTTP(w, r)
	}))
	for _, id := range []string{"\xff", "a\xc3(", "\xed\xa0\x80", "\xc0\x80", "ü", `"\`} {
		body := h.send("GET", "/symbol/folders", "", "X-Request-Id", id).want(401).object()
		is.Equal(body["code"], "unauthorized")
		is.True(body["requestId"] != "")
		h.send("GET", "/nope", "", "X-Request-Id", id).want(404)
		h.send("PUT", "/symbol/folders", "", "X-Request-Id", id).want(405)
		h.send("POST", "/symbol/folders", "{", "X-Request-Id", id, "x-api-key", h.rawKey).want(400)
	}
}
