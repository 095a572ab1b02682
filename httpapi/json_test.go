package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

func TestBody_InvalidJSONIs400(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t, func(o *httpapi.Options) { o.Limits.Body = 40 << 20 })
	long := strings.Repeat("x", 1_000_000)
	for _, body := range []string{
		// syntax
		`{"name":`, `{"name":"x",}`, `{'name':'x'}`, `{"name":"x"} // y`, `{"name":"x"}{"name":"y"}`, `{"name":"x"}x`,
		"{\"name\":\"a\nb\"}", `{"name":"x","x":01}`, `{"name":"x","x":NaN}`, `{"name":1e400}`,
		// no object
		`[{"name":"x"}]`, `null`, strings.Repeat(" ", 100) + `null`, `"name"`, `1`, "  \n ",
		// a field that appears twice
		`{"name":"x","name":"y"}`, `{"name":"x","n\u0061me":"y"}`, `{"name":"x","a":1,"a":1}`,
		`{"name":"x","a":{"b":1,"b":2}}`, manyFields(100_000, `"name":"x","f7":1}`),
		`{"` + long + `":0,"` + long + `":0}`,
		// other encodings, the byte order mark of UTF-8 included
		"\ufeff{\"name\":\"x\"}", "\ufeff\ufeff{}", "\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}", "{\x00}\x00",
		"{\x00\x00\x00}\x00\x00\x00", `+AHs-"name":"x"+AH0-`,
		"{\"name\":\"a\xffb\"}", "{\"name\":\"x\",\"other\":\"\xc3\x28\"}",
		"{\"name\":\"\xc0\x80\"}", "{\"name\":\"\xed\xa0\x80\"}",
		// characters that no text has
		`{"name":"\ud800"}`, `{"name":"\udc00\ud800"}`, `{"name":"x","\udc00":1}`, `{"name":"a\u0000b"}`,
		// other types than a string
		`{"name":1}`, `{"name":true}`, `{"name":["x"]}`, `{"name":{}}`, `{"name":null}`,
		// empty or too long
		`{"name":""}`, `{"name":" \t\u2003 "}`, `{"name":"` + strings.Repeat("ä", 256) + `"}`,
		// too deep
		`{"name":"x","a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, nested(50_000),
		`{"x":` + strings.Repeat("[", 1_000_000),
	} {
		for _, route := range []string{"POST /symbol/folders", "PATCH /symbol/folders/1"} {
			method, path, _ := strings.Cut(route, " ")
			began := time.Now()
			response := h.client(method, path, body).wantError(400, "invalid_request")
			is.True(len(response.body) <= 4<<10)
			is.True(time.Since(began) <= 2*time.Minute)
		}
	}
	// Without the field, an update is valid.
	for _, missing := range []string{`{}`, `{"Name":"x"}`, `{"__proto__":{"name":"x"},"constructor":{}}`} {
		h.client("POST", "/symbol/folders", missing).wantError(400, "invalid_request")
	}
	is.Equal(len(h.client("GET", "/symbol/folders", "").want(200).array()), 1)
}

// manyFields returns a body with fields before the rest.
func manyFields(n int, rest string) string {
	var body strings.Builder
	body.WriteString("{")
	for i := range n {
		fmt.Fprintf(&body, `"f%d":0,`, i)
	}
	return body.String() + rest
}

// nested returns a body of twice n levels.
func nested(n int) string {
	return `{"name":"nested","x":` + strings.Repeat(`{"a":[`, n) + strings.Repeat(`]}`, n) + `}`
}

func TestBody_ValidJSON(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.Body = 40 << 20 })
	for body, name := range map[string]string{
		`{"name":"plain"}`:                               "plain",
		" \r\n\t{ \"name\" : \"spaced\" } \n":            "spaced",
		`{"n\u0061me":"esc\u0061ped"}`:                   "escaped",
		`{"name":"\ud83e\udd86 pair"}`:                   "🦆 pair",
		`{"name":"unknown fields","x":{"y":[1,2]},"":0}`: "unknown fields",
		`{"name":" kept as given "}`:                     " kept as given ",
		`{"name":"` + strings.Repeat("ä", 255) + `"}`:    strings.Repeat("ä", 255),
		`{"name":"e\u0301"}`:                             "e\u0301",
		`{"name":"\u00e9"}`:                              "\u00e9",
		`{"name":"case"}`:                                "case",
		`{"name":"CASE"}`:                                "CASE",
		`{"name":"</script>&\u2028"}`:                    "</script>&\u2028",
		`{"name":"\u0001\u001b[31m"}`:                    "\u0001\u001b[31m",
		`{"name":"alike","n\u0430me":"y","NAME":"z"}`:    "alike",
		`{"name":"NUL field","\u0000":1}`:                "NUL field",
		`{"name":"1e400","x":1e400}`:                     "1e400", // of an unknown field
		nested(50):                                       "nested",
		manyFields(100_000, `"name":"many fields"}`):     "many fields",
		`{"name":"elements","x":[` + strings.Repeat("0,", 1_000_000) + `0]}`: "elements",
		`{"name":"digits","x":` + strings.Repeat("9", 1_000_000) + `}`:       "digits",
		strings.Repeat(" ", 1_000_000) + `{"name":"space"}`:                  "space",
	} {
		began := time.Now()
		response := h.client("POST", "/symbol/folders", body).want(201)
		is.Equal(response.object()["name"], name)
		is.True(len(response.body) <= 4<<10)
		is.True(time.Since(began) <= 2*time.Minute)
	}
}

func TestBody_ContentType(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, valid := range []string{"application/json", "Application/JSON; charset=utf-8", `application/json;charset="UTF-8"`, "application/json; charset=utf8", "application/json; odata=x", "application/vnd.viewer+json"} {
		h.send("POST", "/admin/api-keys", `{}`, "x-admin-key", adminKey, "Content-Type", valid).want(201)
	}
	for _, bad := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonx", "+json", "application", "text/json; x", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/json; charset=iso-8859-1", "application/vnd.viewer+json;charset=utf-7", "application/json; charset=", `application/json; CHARSET="UTF-16LE"`, "application/json; charset*=us-ascii''utf-16", "application/json; charset*0=utf; charset*1=-16", "application/json; charset=utf-8; charset=utf-16"} {
		h.send("POST", "/admin/api-keys", `{}`, "x-admin-key", adminKey, "Content-Type", bad).wantError(415, "unsupported_media_type")
	}
	h.send("POST", "/admin/api-keys", `{}`, "x-admin-key", adminKey, "Content-Encoding", "gzip").wantError(415, "unsupported_media_type")
	h.admin("POST", "/admin/api-keys", "").want(201) // no body, no Content-Type
}

func TestBody_TooLargeIs413(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.Limits.Body, o.Limits.Symbol, o.Limits.Batch = 100, 1000, 500 })
	h.client("POST", "/symbol/folders", `{"name":"x","pad":"`+strings.Repeat("x", 100)+`"}`).wantError(413, "too_large")
	h.folder("x")
	symbol := func(size int) string { return `{"name":"x","type":"a/b","data":"` + strings.Repeat("x", size) + `"}` }
	h.client("POST", "/symbol/folders/1/symbols", symbol(1000)).wantError(413, "too_large")
	h.client("POST", "/symbol/folders/1/symbols", symbol(900)).want(201)
	h.client("PATCH", "/symbol/symbols/1", symbol(1000)).wantError(413, "too_large")
	h.client("POST", "/viewer/exports/download-batch", symbol(500)).wantError(413, "too_large")
	h.client("POST", "/viewer/exports/download-batch", symbol(300)).wantError(400, "invalid_request")
	h.client("POST", "/viewer/exports/download", symbol(100)).wantError(413, "too_large")
}

func TestErrorMessage_BeginsWithField(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.folder("Valves")
	for _, c := range []struct{ path, body, want string }{
		{"/admin/api-keys", `{"name":1}`, "name must be a string"},
		{"/admin/api-keys", `{"name":null}`, "name must be a string"},
		{"/admin/api-keys", `{"name":"a","name":"b"}`, "name appears more than once"},
		{"/admin/api-keys", `{"isActive":"yes"}`, "isActive must be a boolean"},
		{"/admin/api-keys", `{"isActive":null}`, "isActive must be a boolean"},
		{"/admin/api-keys", `{"expiresAt":5}`, "expiresAt must be a string"},
		{"/admin/api-keys", `{"expiresAt":"soon"}`, "expiresAt must be a time"},
		{"/symbol/folders", `{"name":""}`, "name must not be empty"},
		{"/symbol/folders/1/symbols", `{"name":"x","data":"y"}`, "type must be a MIME type"},
		{"/symbol/folders/1/symbols", `{"name":"x","type":"a/b"}`, "data must not be empty"},
		{"/viewer/exports/download", `{"sourceFileUrl":7}`, "sourceFileUrl must be a string"},
		{"/viewer/exports/download", `{}`, "sourceFileUrl must not be empty"},
		{"/viewer/exports/download-batch", `{"items":{}}`, "items must be an array"},
		{"/viewer/exports/download-batch", `{"items":["x"]}`, "items has no element with a usable sourceFileUrl"},
		{"/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"x"},{"path":[]}]}`, "items[1].path must be a string"},
		{"/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"x"},{"fileName":"\u0000"}]}`, "items[1].fileName must not contain"},
		{"/viewer/exports/register", `{"sourceFileUrl":"x","exportedUrl":"ftp://x/y"}`, "exportedUrl must be"},
	} {
		h.send("POST", c.path, c.body, "x-api-key", h.rawKey, "x-admin-key", adminKey).wantInvalid(c.want)
	}
}
