package httpapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

var rawKeyShape = regexp.MustCompile(`^cbk_[0-9A-Za-z]{49}$`)

func TestKeys_CreateReturnsRawKeyOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	response := h.admin("POST", "/admin/api-keys", `{"name":"Viewer","expiresAt":"2026-12-31T12:00:00.5+02:00"}`).want(201)
	is.Equal(response.header.Get("Cache-Control"), "no-store")
	body := response.object()
	raw, _ := body["apiKey"].(string)
	is.True(rawKeyShape.MatchString(raw)) // prefix, 43 digits, 6 digits
	is.True(body["message"] != "")
	is.Equal(len(body), 3)

	want := fmt.Sprintf(`{"id":2,"name":"Viewer","keyPrefix":%q,"maskedKey":%q,"isActive":true,`+
		`"expiresAt":"2026-12-31T10:00:00.500Z","lastUsedAt":null,`+
		`"createdAt":"2026-03-30T10:00:00.123Z","updatedAt":"2026-03-30T10:00:00.123Z","useCount":0}`,
		raw[:10], raw[:10]+"****"+raw[len(raw)-4:])
	is.Equal(string(h.admin("GET", "/admin/api-keys/2", "").want(200).body), want) // bare record, fields in order

	list := h.admin("GET", "/admin/api-keys", "").want(200)
	is.Equal(len(list.array()), 2)
	is.True(strings.Contains(string(list.body), want))   // the list has the same record
	is.True(!strings.Contains(string(list.body), raw))   // but not the raw key
	is.True(!strings.Contains(h.log.String(), raw[10:])) // nor does the log
}

func TestKeys_Defaults(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for i, body := range []string{"", "{}", `{"isActive":true}`, `{"expiresAt":null}`} {
		key := h.admin("POST", "/admin/api-keys", body).want(201).object()["key"].(map[string]any)
		if key["id"] != float64(i+2) || key["name"] != "API key" || key["isActive"] != true || key["expiresAt"] != nil || key["lastUsedAt"] != nil {
			t.Errorf("key created with %q is %v", body, key)
		}
	}
}

func TestKeys_UpdateChangesGivenFieldsOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	record := h.admin("GET", "/admin/api-keys/1", "").object()
	h.clock.Add(time.Hour)

	is.Equal(h.admin("PATCH", "/admin/api-keys/1", `{}`).want(200).object(), record)                       // empty
	is.Equal(h.admin("PATCH", "/admin/api-keys/1", ``).want(200).object(), record)                         // empty
	is.Equal(h.admin("PATCH", "/admin/api-keys/1", `{"name":"API key"}`).want(200).object(), record)       // equal values
	is.Equal(h.admin("PATCH", "/admin/api-keys/1", `{"isActive":true,"expiresAt":null}`).object(), record) // equal values

	h.admin("PATCH", "/admin/api-keys/1", `{"name":"x","isActive":"no"}`).want(400)
	h.admin("PATCH", "/admin/api-keys/1", `{"name":"x","expiresAt":"never"}`).want(400)
	is.Equal(h.admin("GET", "/admin/api-keys/1", "").object(), record) // atomic

	changed := h.admin("PATCH", "/admin/api-keys/1", `{"name":"New","expiresAt":"2027-01-02"}`).want(200).object()
	record["name"], record["expiresAt"], record["updatedAt"] = "New", "2027-01-02T00:00:00.000Z", "2026-03-30T11:00:00.123Z"
	is.Equal(changed, record)
	changed = h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":null}`).want(200).object()
	is.Equal(changed["expiresAt"], nil)                                   // cleared
	is.Equal(changed["name"], "New")                                      // stays
	is.True(changed["updatedAt"].(string) > record["updatedAt"].(string)) // increases even if the clock does not
	h.admin("PATCH", "/admin/api-keys/99", `{"name":"x"}`).wantError(404, "not_found")
}

func TestKeys_Rotate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("GET", "/symbol/folders", "").want(200)
	h.admin("PATCH", "/admin/api-keys/1", `{"name":"Mine","expiresAt":"2030-01-01"}`).want(200)
	before := h.admin("GET", "/admin/api-keys/1", "").object()
	h.clock.Add(time.Minute)

	body := h.admin("POST", "/admin/api-keys/1/rotate", "").want(200).object()
	after := body["key"].(map[string]any)
	for _, field := range []string{"id", "name", "isActive", "expiresAt", "createdAt", "lastUsedAt"} {
		is.Equal(after[field], before[field]) // unchanged by a rotation
	}
	is.True(after["keyPrefix"] != before["keyPrefix"])
	is.Equal(after["updatedAt"], "2026-03-30T10:01:00.123Z")
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized") // the previous key
	h.send("GET", "/symbol/folders", "", "x-api-key", body["apiKey"].(string)).want(200)

	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200)
	again := h.admin("POST", "/admin/api-keys/1/rotate", "").want(200).object()
	is.Equal(again["key"].(map[string]any)["isActive"], false) // stays inactive
	h.send("GET", "/symbol/folders", "", "x-api-key", again["apiKey"].(string)).wantError(403, "forbidden")
	h.admin("POST", "/admin/api-keys/99/rotate", "").wantError(404, "not_found")
}

func TestKeys_Delete(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	is.True(h.admin("DELETE", "/admin/api-keys/1", "").want(200).message() != "")
	h.admin("DELETE", "/admin/api-keys/1", "").wantError(404, "not_found")
	h.admin("GET", "/admin/api-keys/1", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized")
	is.Equal(string(h.admin("GET", "/admin/api-keys", "").want(200).body), "[]")
	key := h.admin("POST", "/admin/api-keys", "").want(201).object()["key"].(map[string]any)
	is.Equal(key["id"], 2.0) // ids are not reused
}

func TestKeys_LastUseShowsImmediately(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.clock.Add(time.Second)
	h.client("GET", "/symbol/folders", "").want(200)
	h.send("GET", "/symbol/folders", "", "x-api-key", h.rawKey+"x").want(401)
	record := h.admin("GET", "/admin/api-keys/1", "").object()
	is.Equal(record["lastUsedAt"], "2026-03-30T10:00:01.123Z")
	is.Equal(record["useCount"], 1.0)
	is.Equal(record["updatedAt"], record["createdAt"]) // a use is not an update
	list := h.admin("GET", "/admin/api-keys", "").array()
	is.Equal(list[0].(map[string]any)["lastUsedAt"], "2026-03-30T10:00:01.123Z")
}

func TestKeys_Expiry(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":"2026-03-30T10:00:01.123Z"}`).want(200)
	h.clock.Add(999 * time.Millisecond)
	h.client("GET", "/symbol/folders", "").want(200)
	h.clock.Add(time.Millisecond)
	h.client("GET", "/symbol/folders", "").wantError(403, "forbidden") // expired at that instant
	h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":null}`).want(200)
	h.client("GET", "/symbol/folders", "").want(200)
	h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":"1970-01-01"}`).want(200) // the past is accepted
	h.client("GET", "/symbol/folders", "").wantError(403, "forbidden")
}

func TestKeys_ParsesTimes(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for in, want := range map[string]string{
		"2026-12-31":                          "2026-12-31T00:00:00.000Z",
		"2026-12-31T23:59:59Z":                "2026-12-31T23:59:59.000Z",
		"2026-12-31t23:59:59z":                "2026-12-31T23:59:59.000Z",
		"2026-12-31T23:59:59.1239999Z":        "2026-12-31T23:59:59.123Z",
		"2026-12-31T23:59:59+05:30":           "2026-12-31T18:29:59.000Z",
		"2026-12-31T23:59:59-00:00":           "2026-12-31T23:59:59.000Z",
		"1970-01-01T00:00:00Z":                "1970-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999Z":            "9999-12-31T23:59:59.999Z",
		"1969-12-31T23:00:00-02:00":           "1970-01-01T01:00:00.000Z",
		"2024-02-29":                          "2024-02-29T00:00:00.000Z",
		"2026-12-31T23:59:59.123456789+00:00": "2026-12-31T23:59:59.123Z",
	} {
		response := h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":`+quote(in)+`}`)
		if response.status != 200 || response.object()["expiresAt"] != want {
			t.Errorf("expiresAt %q has status %d %s, want %s", in, response.status, response.body, want)
		}
	}
	for _, bad := range []string{
		"", " ", "now", "2026", "2026-12", "2026-13-01", "2026-02-30", "2023-02-29", "2026-12-31 23:59:59",
		"2026-12-31T23:59:59", "2026-12-31T24:00:00Z", "2026-12-31T23:59:60Z", "2026-12-31T9:00:00Z",
		"2026-12-31T23:59:59,5Z", "2026-12-31T23:59:59+25:00", "2026-12-31T23:59:59+24:00", "2026-12-31T23:59:59+05:60", "2026-12-31T23:59:59-24:60", "1969-12-31", "9999-12-31T23:59:59-01:00",
		"10000-01-01", "+002026-12-31", "0001-01-01T00:00:00Z", "0001-01-01", "1767225600", "2026-12-31T23:59Z", " 2026-12-31",
	} {
		response := h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":`+quote(bad)+`}`)
		if response.status != 400 || !strings.HasPrefix(response.message(), "expiresAt") {
			t.Errorf("expiresAt %q has status %d %s, want 400", bad, response.status, response.body)
		}
	}
}
