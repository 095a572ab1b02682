package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// sendRaw writes bytes to a new connection, closes it for writing, and returns the
// statuses of all responses.
func (h *harness) sendRaw(request string) (statuses []int) {
	h.t.Helper()
	conn := h.dial()
	defer conn.Close()
	io.WriteString(conn, request)
	conn.CloseWrite()
	for reader := bufio.NewReader(conn); ; {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return statuses
		}
		statuses = append(statuses, response.StatusCode)
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return statuses
		}
	}
}

// wantStatuses sends a request for each text, between what precedes and follows all of them, and
// compares its status. It replaces KEY and ADMIN by valid keys.
func (h *harness) wantStatuses(before, after string, texts map[int][]string) {
	h.t.Helper()
	validKeys := strings.NewReplacer("KEY", h.rawKey, "ADMIN", adminKey)
	for want, list := range texts {
		for _, text := range list {
			got := h.sendRaw(validKeys.Replace(before+text+after) + "Connection: close\r\n\r\n")
			if !slices.Equal(got, []int{want}) {
				h.t.Errorf("%.200q: statuses are %v, want %d", text, got, want)
			}
		}
	}
}

func TestHTTP1_RequestLinesAndHeaders(t *testing.T) {
	t.Parallel()
	h := serveFolder(t)
	h.wantStatuses("GET /symbol/folders HTTP/1.1\r\nHost: x\r\n", "\r\n", map[int][]string{
		200: {
			"X-Api-Key: KEY", "X-Api-Key:KEY", "X-Api-Key: \t KEY \t ",
			"X-Api-Key:\r\n KEY",                      // obs-fold counts as white space
			"Connection: X-Api-Key\r\nX-Api-Key: KEY", // matters to proxies only
			"X-Original-URL: /admin/api-keys\r\nX-Api-Key: KEY",
		},
		400: {
			" X-Api-Key: KEY", // folds Host
			"X-Api-Key : KEY", "X-Api-Key\t: KEY", "X-Api-Key KEY", ": KEY", "X-Api-Key: KEY\x00", "X-Api-Key\x00: KEY",
			"X-Api-Key: KEY\rX-Other: y", "X-Api-Key: KEY\x0b", "X\u2010Api\u2010Key: KEY", "Host: y\r\nX-Api-Key: KEY",
		},
		401: {
			"X-Api-Key: KEY\u00a0", "X_Api_Key: KEY", "X-ApiKey: KEY",
			"X-Api-Key: KEY\r\nX-Api-Key: KEY", "X-Api-Key: KEY\r\nx-api-key:",
		},
	})
	h.wantStatuses("", "\r\nHost: x\r\nX-Api-Key: KEY\r\n", map[int][]string{
		200: {
			"GET http://other.example/symbol/folders HTTP/1.1", "GET http:///symbol/folders HTTP/1.1",
			"GET /symbol/folders HTTP/1.9", "GET http://u:p@x/admin/api-keys HTTP/1.1\r\nX-Admin-Key: ADMIN",
		},
		400: {
			"POST /symbol/folders HTTP/1.1\r\nX-HTTP-Method-Override: DELETE",
			"GET symbol/folders HTTP/1.1", "GET ?x HTTP/1.1", "GET /symbol/folders HTTP/1.1 x",
			"GET  /symbol/folders HTTP/1.1", "GET\t/symbol/folders HTTP/1.1",
			"GE(T /symbol/folders HTTP/1.1", "G\x00ET /symbol/folders HTTP/1.1",
		},
		401: {"GET http://x/admin/api-keys HTTP/1.1"},
		404: {"GET http:symbol/folders HTTP/1.1", "GET * HTTP/1.1"},
		415: {"POST /symbol/folders HTTP/1.1\r\nContent-Length: 1\r\nContent-Type: application/json\r\nContent-Type: application/json"},
		505: {"GET /symbol/folders HTTP/3.0"},
	})
	h.wantStatuses("", "\r\n", map[int][]string{
		200: {"GET /symbol/folders HTTP/1.0\r\nX-Api-Key: KEY"},
		400: {
			"GET /symbol/folders HTTP/1.1\r\nX-Api-Key: KEY", // no host
			"GET /symbol/folders HTTP/1.1\r\nHost: x y\r\nX-Api-Key: KEY",
			"GET /symbol/folders\r\nX-Api-Key: KEY",
		},
		404: {"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nX-Api-Key: KEY", "PRI * HTTP/2.0\r\n\r\nSM"},
	})
}

// TestHTTP1_Framing attempts request smuggling: a second request is visible to one
// of two parsers only. The server must not serve it, and must close the connection
// after ambiguous framing.
func TestHTTP1_Framing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	var (
		post    = "POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\n"
		keyless = "POST /symbol/folders HTTP/1.1\r\nHost: x\r\n"
		hidden  = post + "Content-Length: 17\r\n\r\n{\"name\":\"hidden\"}"
		chunked = "Transfer-Encoding: chunked\r\n"
		own     = `{"name":"own"}`
		plain   = "e\r\n" + own + "\r\n0\r\n\r\n"
		trailer = strings.TrimSuffix(plain, "\r\n") + "X-Api-Key: " + h.rawKey + "\r\n\r\n"
	)
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	for request, want := range map[string]struct {
		status  int
		folders string
	}{
		post + chunked + "\r\n" + plain:                                                 {201, "own"},
		post + "Transfer-Encoding: CHUNKED\r\n\r\n" + plain:                             {201, "own"},
		post + length(14) + "\r\n{\"name\":\"own\"}":                                    {201, "own"},
		post + length(14) + length(14) + "\r\n{\"name\":\"own\"}":                       {201, "own"}, // equal duplicates
		post + length(14) + length(15) + "\r\n{\"name\":\"own\"}" + hidden:              {400, ""},
		post + "Content-Length: 14, 15\r\n\r\n{\"name\":\"own\"}" + hidden:              {400, ""},
		post + "Content-Length: +14\r\n\r\n{\"name\":\"own\"}":                          {400, ""},
		post + "Content-Length: -14\r\n\r\n{\"name\":\"own\"}":                          {400, ""},
		post + "Content-Length: 0xe\r\n\r\n{\"name\":\"own\"}":                          {400, ""},
		post + "Content-Length: 1e1\r\n\r\n{\"name\":\"own\"}":                          {400, ""},
		post + "Content-Length: 1 4\r\n\r\n{\"name\":\"own\"}":                          {400, ""},
		post + "Content-Length:\r\n\r\n" + hidden:                                       {400, ""},
		post + "Content-Length: 99999999999999999999\r\n\r\n" + hidden:                  {400, ""},
		post + "Content-Length : 14\r\n\r\n{\"name\":\"own\"}" + hidden:                 {400, ""},
		post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden:                  {400, ""},
		post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden:                  {501, ""},
		post + "Transfer-Encoding: identity\r\n\r\n" + hidden:                           {501, ""},
		post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + plain + hidden:              {501, ""},
		post + "Transfer-Encoding: chunked, chunked\r\n\r\n" + plain + hidden:           {501, ""},
		post + chunked + chunked + "\r\n" + plain + hidden:                              {501, ""},
		post + chunked + "Transfer-Encoding: identity\r\n\r\n" + plain + hidden:         {501, ""},
		post + "Transfer-Encoding: \x0bchunked\r\n\r\n" + plain + hidden:                {400, ""},
		post + chunked + "\r\n-1\r\n" + hidden:                                          {400, ""},
		post + chunked + "\r\nffffffffffffffffff\r\n" + hidden:                          {400, ""},
		post + chunked + "\r\n0xe\r\n{\"name\":\"own\"}\r\n0\r\n\r\n" + hidden:          {400, ""},
		post + chunked + "\r\n e\r\n{\"name\":\"own\"}\r\n0\r\n\r\n" + hidden:           {400, ""},
		post + chunked + "\r\nd\r\n{\"name\":\"own\"}\r\n0\r\n\r\n" + hidden:            {400, ""},
		post + chunked + "\r\ne\r\n{\"name\":\"own\"}XX0\r\n\r\n" + hidden:              {400, ""},
		post + chunked + "\r\ne\n{\"name\":\"own\"}\r\n0\r\n\r\n" + hidden:              {400, ""},
		post + chunked + "\r\ne;" + strings.Repeat("x", 9000) + "\r\n" + hidden:         {400, ""},
		post + chunked + "\r\ne\r\n{\"name\":\"own\"}":                                  {400, ""}, // truncated
		post + length(20) + "\r\n{\"name\":\"own\"}":                                    {400, ""}, // truncated
		strings.Replace(post, "1.1", "1.0", 1) + chunked + "\r\n" + plain:               {400, ""}, // HTTP/1.0 has no chunks
		keyless + length(len(hidden)) + "\r\n" + hidden:                                 {401, ""}, // the body of a 401
		keyless + length(300_000) + "\r\n" + hidden:                                     {401, ""}, // too long to drain
		keyless + "X-Api-Key: x\r\nTrailer: X-Api-Key\r\n" + chunked + "\r\n" + trailer: {401, ""}, // a key in the trailer
		keyless + "Trailer: X-Api-Key\r\n" + chunked + "\r\n" + trailer:                 {401, ""},
		strings.Replace(post, "POST", "GET", 1) + length(len(hidden)) + "\r\n" + hidden: {200, ""}, // the body of a GET
	} {
		t.Logf("%.200q", request)
		is.Equal(h.sendRaw(request), []int{want.status})
		var names []string
		for _, folder := range h.client("GET", "/symbol/folders", "").want(200).array() {
			names = append(names, folder.(map[string]any)["name"].(string))
			h.client("DELETE", fmt.Sprint("/symbol/folders/", folder.(map[string]any)["id"]), "").want(200)
		}
		is.Equal(strings.Join(names, " "), want.folders)
	}
}

// TestHTTP1_LengthAndChunks sends both Content-Length and chunks, which take
// precedence. What follows the chunks may be served as a request, but only with a
// key of its own.
func TestHTTP1_LengthAndChunks(t *testing.T) {
	t.Parallel()
	h := serve(t)
	got := h.sendRaw("POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + h.rawKey + "\r\nContent-Length: 500\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"e\r\n{\"name\":\"own\"}\r\n0\r\n\r\nDELETE /symbol/folders/1 HTTP/1.1\r\nHost: x\r\n\r\n")
	t.Log(got)
	is.New(t).True(len(got) > 0 && got[0] == 201 && (len(got) == 1 || got[1] == 401))
	h.client("GET", "/symbol/folders/1", "").want(200)
}
