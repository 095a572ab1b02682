package httpapi_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

func TestBody_InvalidJSONIs400(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201)
	for name, body := range map[string]string{
		"syntax":                       `{"name":`,
		"trailing comma":               `{"name":"x",}`,
		"single quotes":                `{'name':'x'}`,
		"comment":                      `{"name":"x"} // y`,
		"second object":                `{"name":"x"}{"name":"y"}`,
		"trailing text":                `{"name":"x"}x`,
		"array":                        `[{"name":"x"}]`,
		"null":                         `null`,
		"null after spaces":            strings.Repeat(" ", 100) + `null`,
		"string":                       `"name"`,
		"number":                       `1`,
		"only white space":             "  \n ",
		"duplicate field":              `{"name":"x","name":"y"}`,
		"duplicate field, escaped":     `{"name":"x","n\u0061me":"y"}`,
		"duplicate unknown field":      `{"name":"x","a":1,"a":1}`,
		"duplicate field further down": `{"name":"x","a":{"b":1,"b":2}}`,
		"byte order mark":              "\ufeff{\"name\":\"x\"}",
		"UTF-16LE":                     "\xff\xfe{\x00}\x00",
		"UTF-16BE":                     "\xfe\xff\x00{\x00}",
		"UTF-16 without a mark":        "{\x00}\x00",
		"number beyond float64":        `{"name":1e400}`,
		"broken UTF-8":                 "{\"name\":\"a\xffb\"}",
		"broken UTF-8 in unknown":      "{\"name\":\"x\",\"other\":\"\xc3\x28\"}",
		"overlong UTF-8":               "{\"name\":\"\xc0\x80\"}",
		"encoded surrogate":            "{\"name\":\"\xed\xa0\x80\"}",
		"lone surrogate":               `{"name":"\ud800"}`,
		"surrogates in wrong order":    `{"name":"\udc00\ud800"}`,
		"NUL":                          `{"name":"a\u0000b"}`,
		"raw control character":        "{\"name\":\"a\nb\"}",
		"number for string":            `{"name":1}`,
		"boolean for string":           `{"name":true}`,
		"array for string":             `{"name":["x"]}`,
		"object for string":            `{"name":{}}`,
		"null for string":              `{"name":null}`,
		"empty":                        `{"name":""}`,
		"white space":                  `{"name":" \t\u2003 "}`,
		"too long":                     `{"name":"` + strings.Repeat("ä", 256) + `"}`,
		"missing":                      `{}`,
		"other case":                   `{"Name":"x"}`,
		"nested 20000 deep":            `{"name":"x","a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		h.client("POST", "/symbol/folders", body).wantError(400, "invalid_request")
		if name == "missing" || name == "other case" {
			continue // an empty update is valid
		}
		t.Log(name)
		h.client("PATCH", "/symbol/folders/1", body).want(400)
	}
	is.New(t).Equal(len(h.client("GET", "/symbol/folders", "").want(200).array()), 1)
}

func TestBody_ValidJSON(t *testing.T) {
	t.Parallel()
	h := serve(t)
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
	} {
		is.New(t).Equal(h.client("POST", "/symbol/folders", body).want(201).object()["name"], name)
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
	h.client("POST", "/symbol/folders", `{"name":"x"}`).want(201)
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
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201)
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
		t.Log(c.body, c.want)
		response := h.send("POST", c.path, c.body, "x-api-key", h.rawKey, "x-admin-key", adminKey).wantError(400, "invalid_request")
		is.True(strings.HasPrefix(response.message(), c.want))
	}
}
