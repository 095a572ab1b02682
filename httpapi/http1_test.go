package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
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

// TestHTTP1_RequestLinesAndHeaders replaces KEY and ADMIN by valid keys.
func TestHTTP1_RequestLinesAndHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	const get = "GET /symbol/folders HTTP/1.1\r\nHost: x\r\n"
	for request, want := range map[string]int{
		get + "X-Api-Key: KEY\r\n":                                    200,
		get + "X-Api-Key:KEY\r\n":                                     200,
		get + "X-Api-Key: \t KEY \t \r\n":                             200,
		get + "X-Api-Key : KEY\r\n":                                   400,
		get + "X-Api-Key\t: KEY\r\n":                                  400,
		get + " X-Api-Key: KEY\r\n":                                   400, // folds Host
		get + "X-Api-Key KEY\r\n":                                     400,
		get + ": KEY\r\n":                                             400,
		get + "X-Api-Key: KEY\x00\r\n":                                400,
		get + "X-Api-Key\x00: KEY\r\n":                                400,
		get + "X-Api-Key: KEY\rX-Other: y\r\n":                        400,
		get + "X-Api-Key: KEY\x0b\r\n":                                400,
		get + "X-Api-Key: KEY\u00a0\r\n":                              401,
		get + "X\u2010Api\u2010Key: KEY\r\n":                          400,
		get + "X_Api_Key: KEY\r\n":                                    401,
		get + "X-ApiKey: KEY\r\n":                                     401,
		get + "X-Api-Key:\r\n KEY\r\n":                                200, // obs-fold counts as white space
		get + "X-Api-Key: KEY\r\nX-Api-Key: KEY\r\n":                  401,
		get + "X-Api-Key: KEY\r\nx-api-key:\r\n":                      401,
		get + "Host: y\r\nX-Api-Key: KEY\r\n":                         400,
		get + "Connection: X-Api-Key\r\nX-Api-Key: KEY\r\n":           200, // matters to proxies only
		get + "X-Original-URL: /admin/api-keys\r\nX-Api-Key: KEY\r\n": 200,
		"POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\nX-HTTP-Method-Override: DELETE\r\n": 400,
		"GET /symbol/folders HTTP/1.1\r\nX-Api-Key: KEY\r\n":                                               400, // no host
		"GET /symbol/folders HTTP/1.0\r\nX-Api-Key: KEY\r\n":                                               200,
		"GET http://other.example/symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                200,
		"GET http://x/admin/api-keys HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                            401,
		"GET http://u:p@x/admin/api-keys HTTP/1.1\r\nHost: x\r\nX-Admin-Key: ADMIN\r\n":                    200,
		"GET http:///symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                             200,
		"GET http:symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                404,
		"GET symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                     400,
		"GET ?x HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                                 400,
		"GET * HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                                  404,
		"GET /symbol/folders HTTP/1.1 x\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                  400,
		"GET  /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                   400,
		"GET\t/symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                   400,
		"GET /symbol/folders\r\nX-Api-Key: KEY\r\n":                                                        400,
		"GET /symbol/folders HTTP/1.9\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                    200,
		"GET /symbol/folders HTTP/3.0\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                    505,
		"GE(T /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                   400,
		"G\x00ET /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: KEY\r\n":                                400,
		"GET /symbol/folders HTTP/1.1\r\nHost: x y\r\nX-Api-Key: KEY\r\n":                                  400,
		"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nX-Api-Key: KEY\r\n":                                        404,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n":                                                                     404,
	} {
		t.Logf("%.200q", request)
		text := strings.NewReplacer("KEY", h.rawKey, "ADMIN", adminKey).Replace(request) + "Connection: close\r\n\r\n"
		got := h.sendRaw(text)
		is.Equal(got, []int{want})
	}
}

// TestHTTP1_Paths sends paths that resemble that of folder 1.
func TestHTTP1_Paths(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	for path, want := range map[string]int{
		"/symbol/folders/1":                                  200,
		"/symbol/folders/1?":                                 200,
		"/symbol/folders/1?x=/../2;y":                        200,
		"/symbol/folders/%31":                                400,
		"/%73ymbol/%66olders/1":                              200, // equivalent by RFC 3986
		"/symbol/folders/+1":                                 400,
		"/symbol/folders/%2b1":                               400,
		"/symbol/folders/-1":                                 400,
		"/symbol/folders/01":                                 400,
		"/symbol/folders/1%20":                               400,
		"/symbol/folders/%201":                               400,
		"/symbol/folders/1%09":                               400,
		"/symbol/folders/1%0a":                               400,
		"/symbol/folders/1%0d%0aX-Y:%20z":                    400,
		"/symbol/folders/1%00":                               400,
		"/symbol/folders/1;x":                                400,
		"/symbol/folders/1;":                                 400,
		"/symbol/folders/1,1":                                400,
		"/symbol/folders/1#x":                                400,
		"/symbol/folders/1%23x":                              400,
		"/symbol/folders/1%3fx":                              400,
		"/symbol/folders/1%2f":                               400,
		"/symbol/folders/1%2fsymbols":                        400,
		"/symbol/folders/%2e":                                400,
		"/symbol/folders/%2e%2e":                             400,
		"/symbol/folders/%2e%2e%2f1":                         400,
		"/symbol/folders/1%5c":                               400,
		"/symbol/folders/1\\":                                400,
		"/symbol/folders/\u0661":                             400, // Arabic digits
		"/symbol/folders/%D9%A1":                             400,
		"/symbol/folders/\uff11":                             400, // full-width digits
		"/symbol/folders/%EF%BC%91":                          400,
		"/symbol/folders/1\u200b":                            400,
		"/symbol/folders/%ff1":                               400,
		"/symbol/folders/%2531":                              400, // escaped twice
		"/symbol/folders/1e0":                                400,
		"/symbol/folders/0x1":                                400,
		"/symbol/folders/0":                                  400,
		"/symbol/folders/1.0":                                400,
		"/symbol/folders/null":                               400,
		"/symbol/folders/9223372036854775808":                400,
		"/symbol/folders/9223372036854775807":                404,
		"/symbol/folders/1_0":                                400,
		"/symbol/folders/18446744073709551617":               400, // 1 modulo 2^64
		"/symbol/folders/" + strings.Repeat("1", 3000):       400,
		"/symbol/folders/" + strings.Repeat("0", 3000) + "1": 400,
		"/symbol/folders/1/":                                 404,
		"/symbol/folders//1":                                 404,
		"//symbol/folders/1":                                 404,
		"/symbol/folders/./1":                                404,
		"/symbol/folders/2/../1":                             404,
		"/../symbol/folders/1":                               404,
		"/%2e%2e/symbol/folders/1":                           404,
		"/symbol%2ffolders/1":                                404,
		"/symbol/folders%2f1":                                404,
		"/symbol/folders%00/1":                               404,
		"/symbol\\folders\\1":                                404,
		"/Symbol/folders/1":                                  404,
		"/symbol/folders;x/1":                                404,
		"/symbol/folders/%zz":                                400,
		"/symbol/folders/%":                                  400,
		"/symbol/folders/1 ":                                 400, // two spaces in the request line
		"/symbol/folders/ 1":                                 400,
		"/symbol/folders/1\x00":                              400,
		"/symbol/folders/1\x7f":                              400,
	} {
		t.Logf("%.60q", path)
		got := h.sendRaw("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: " + h.rawKey + "\r\n\r\n")
		is.Equal(got, []int{want})
	}
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
		plain   = "e\r\n{\"name\":\"own\"}\r\n0\r\n\r\n"
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
		got := h.sendRaw(request)
		is.Equal(got, []int{want.status})
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
