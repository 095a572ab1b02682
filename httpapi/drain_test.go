package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/matryer/is"
)

// TestDrain_UnreadBody: net/http alone would wait for an unread body before or
// after the response.
func TestDrain_UnreadBody(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"f"}`).want(201)
	for request, want := range map[string]int{
		"GET /symbol/folders HTTP/1.1\r\nContent-Length: 100":                                     200,
		"GET /symbol/folders/1/symbols HTTP/1.1\r\nTransfer-Encoding: chunked":                    200,
		"GET /symbol/folders/1/export HTTP/1.1\r\nContent-Length: 100":                            200,
		"GET /openapi.json HTTP/1.1\r\nContent-Length: 100":                                       200,
		"DELETE /symbol/symbols/9 HTTP/1.1\r\nContent-Length: 100":                                404,
		"POST /nope HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 100":                      404,
		"POST /symbol/folders HTTP/1.1\r\nX-None: 1\r\nExpect: 100-continue\r\nContent-Length: 9": -401,
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			conn := h.dial()
			credentials := "X-Api-Key: " + h.rawKey + "\r\nX-Admin-Key: " + adminKey + "\r\n"
			if want < 0 {
				want, credentials = -want, ""
			}
			fmt.Fprintf(conn, "%s\r\nHost: x\r\n%s\r\n1", request, credentials)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			is.NoErr(err)
			is.Equal(response.StatusCode, want)
			_, err = io.Copy(io.Discard, response.Body)
			is.NoErr(err)
			_, err = io.Copy(io.Discard, conn)
			is.NoErr(err) // the server closes the connection
		})
	}
}
