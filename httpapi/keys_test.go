package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

var rawKeyShape = regexp.MustCompile(`^cbk_[0-9A-Za-z]{49}$`)

func TestKeys_CreateReturnsRawKeyOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	response := h.admin("POST", "/admin/api-keys", `{"name":"Viewer","expiresAt":"2026-12-31T12:00:00.5+02:00"}`).want(201)
	response.wantHeaders("Cache-Control", "no-store")
	body := response.object()
	raw, _ := body["apiKey"].(string)
	is.True(rawKeyShape.MatchString(raw)) // prefix, 43 digits, 6 digits
	is.True(body["message"] != "")
	is.Equal(len(body), 3)

	want := fmt.Sprintf(`{"id":2,"name":"Viewer","keyPrefix":%q,"maskedKey":%q,"isActive":true,`+
		`"expiresAt":"2026-12-31T10:00:00.500Z","lastUsedAt":null,`+
		`"createdAt":"2026-03-30T10:00:00.123Z","updatedAt":"2026-03-30T10:00:00.123Z","owner":null,"scopes":null,"previousKeyExpiresAt":null,"useCount":0}`,
		raw[:10], raw[:10]+"****"+raw[len(raw)-4:])
	h.admin("GET", "/admin/api-keys/2", "").wantBody(200, want) // bare record, fields in order

	list := h.admin("GET", "/admin/api-keys", "").want(200)
	is.Equal(len(list.array()), 2)
	is.True(strings.Contains(string(list.body), want))   // the list has the same record
	is.True(!strings.Contains(string(list.body), raw))   // but not the raw key
	is.True(!strings.Contains(h.log.String(), raw[10:])) // nor does the log
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
	h.clock.Add(time.Second)
	h.client("GET", "/symbol/folders", "").want(200)
	h.send("GET", "/symbol/folders", "", "x-api-key", h.rawKey+"x").want(401)
	used := h.admin("GET", "/admin/api-keys", "").array()[0].(map[string]any)
	is.Equal([]any{used["lastUsedAt"], used["useCount"]}, []any{"2026-03-30T10:00:01.123Z", 1.0})
	is.Equal(used["updatedAt"], used["createdAt"]) // a use is not an update
	h.admin("PATCH", "/admin/api-keys/1", `{"name":"Mine","expiresAt":"2030-01-01"}`).want(200)
	before := h.admin("GET", "/admin/api-keys/1", "").object()
	h.clock.Add(time.Minute)

	body := h.admin("POST", "/admin/api-keys/1/rotate", "").want(200).object()
	after := body["key"].(map[string]any)
	for _, field := range []string{"id", "name", "isActive", "expiresAt", "createdAt", "lastUsedAt"} {
		is.Equal(after[field], before[field]) // unchanged by a rotation
	}
	is.True(after["keyPrefix"] != before["keyPrefix"])
	is.Equal(after["updatedAt"], "2026-03-30T10:01:01.123Z")
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized") // the previous key
	h.send("GET", "/symbol/folders", "", "x-api-key", body["apiKey"].(string)).want(200)

	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200)
	again := h.admin("POST", "/admin/api-keys/1/rotate", "").want(200).object()
	is.Equal(again["key"].(map[string]any)["isActive"], false) // stays inactive
	h.send("GET", "/symbol/folders", "", "x-api-key", again["apiKey"].(string)).wantError(403, "forbidden")
	h.admin("POST", "/admin/api-keys/99/rotate", "").wantError(404, "not_found")
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
		changed := h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":`+quote(in)+`}`).want(200).object()
		is.New(t).Equal(changed["expiresAt"], want)
	}
	for _, bad := range []string{
		"", " ", "now", "2026", "2026-12", "2026-13-01", "2026-02-30", "2023-02-29", "2026-12-31 23:59:59",
		"2026-12-31T23:59:59", "2026-12-31T24:00:00Z", "2026-12-31T23:59:60Z", "2026-12-31T9:00:00Z",
		"2026-12-31T23:59:59,5Z", "2026-12-31T23:59:59+25:00", "2026-12-31T23:59:59+24:00", "2026-12-31T23:59:59+05:60", "2026-12-31T23:59:59-24:60", "1969-12-31", "9999-12-31T23:59:59-01:00",
		"10000-01-01", "+002026-12-31", "0001-01-01T00:00:00Z", "0001-01-01", "1767225600", "2026-12-31T23:59Z", " 2026-12-31",
	} {
		h.admin("PATCH", "/admin/api-keys/1", `{"expiresAt":`+quote(bad)+`}`).wantInvalid("expiresAt")
	}
}

func TestKeys_OwnerAndScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	key := h.admin("POST", "/admin/api-keys", `{"owner":" Tenant 1 ","scopes":["symbols:read","app:own"]}`).want(201).object()["key"].(map[string]any)
	is.Equal(key["owner"], " Tenant 1 ")
	is.Equal(key["scopes"], []any{"symbols:read", "app:own"})
	h.clock.Add(time.Second)
	same := h.admin("PATCH", "/admin/api-keys/2", `{"owner":" Tenant 1 ","scopes":["symbols:read","app:own"]}`).want(200).object()
	is.Equal(same, key) // equal values change nothing
	is.Equal(h.admin("PATCH", "/admin/api-keys/2", `{"scopes":["app:own","symbols:read"]}`).want(200).object()["scopes"], []any{"app:own", "symbols:read"})
	is.Equal(h.admin("PATCH", "/admin/api-keys/2", `{"scopes":[]}`).want(200).object()["scopes"], []any{})
	key = h.admin("PATCH", "/admin/api-keys/2", `{"scopes":null,"owner":null}`).want(200).object()
	is.Equal(key["owner"], nil)
	is.Equal(key["scopes"], nil)
	for field, values := range map[string][]string{
		"owner": {`""`, `" "`, `1`, `"\u0000"`, quote(strings.Repeat("x", 256))},
		"scopes": {
			`"a"`, `{}`, `[1]`, `[null]`, `[""]`, `["A"]`, `["a","a"]`, `["a b"]`, `["*"]`, `["a\u0000"]`, `[["a"]]`,
			`["a"],"scopes":["b"]`,
		},
	} {
		for _, value := range values {
			body := `{"` + field + `":` + value + `}`
			h.admin("POST", "/admin/api-keys", body).wantInvalid(field)
			h.admin("PATCH", "/admin/api-keys/2", body).wantInvalid(field)
		}
	}
}

func TestKeys_ListPagesAndFilters(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for i := range 6 { // ids 2 to 7
		h.admin("POST", "/admin/api-keys", `{"owner":`+quote([]string{"a", "b&é>"}[i%2])+`}`).want(201)
	}
	for _, c := range []struct {
		query string
		ids   []int64
		link  string
	}{
		{"", []int64{1, 2, 3, 4, 5, 6, 7}, ""},
		{"?after=5", []int64{6, 7}, ""},
		{"?after=7", nil, ""},
		{"?limit=3", []int64{1, 2, 3}, `<?limit=3&after=3>; rel="next"`},
		{"?limit=3&after=3", []int64{4, 5, 6}, `<?limit=3&after=6>; rel="next"`},
		{"?limit=3&after=6", []int64{7}, ""},
		{"?limit=7", []int64{1, 2, 3, 4, 5, 6, 7}, ""},
		{"?limit=1000&after=9223372036854775807", nil, ""},
		{"?owner=a", []int64{2, 4, 6}, ""},
		{"?owner=A", nil, ""},
		{"?owner=b%26%C3%A9%3E&limit=2&x=1", []int64{3, 5}, `<?limit=2&after=5&owner=b%26%C3%A9%3E&x=1>; rel="next"`},
		{"?x&limit=6&y=", []int64{1, 2, 3, 4, 5, 6}, `<?limit=6&after=6&x&y=>; rel="next"`},
	} {
		response := h.admin("GET", "/admin/api-keys"+c.query, "").want(200)
		is.New(t).Equal(ids(response), c.ids)
		response.wantHeaders("Link", c.link)
	}
	for query, parameter := range map[string]string{
		"?limit=0": "limit", "?limit=1001": "limit", "?limit=01": "limit", "?limit=1&limit=1": "limit", "?after=-1": "after", "?after=x": "after",
		"?owner=": "owner", "?owner=%00": "owner", "?owner=%ff": "owner", "?owner=a&owner=a": "owner", "?owner=" + strings.Repeat("x", 256): "owner", "?owner=%zz": "owner",
	} {
		h.admin("GET", "/admin/api-keys"+query, "").wantInvalid(parameter + " ")
		h.send("GET", "/admin/api-keys"+query, "").want(401) // the key comes first
	}
}

func TestKeys_LongListIsStreamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for range 2500 {
		must(h.options.Keys.Create(t.Context(), keys.Fields{}))(t)
	}
	for after, want := range map[string]int{"0": 2501, "501": 2000, "1500": 1001, "1501": 1000, "1502": 999} {
		response := h.admin("GET", "/admin/api-keys?after="+after, "").want(200)
		is.Equal(len(response.array()), want)
		is.Equal(response.header.Get("Content-Length") == "", want > 1000)
		zipped := h.send("GET", "/admin/api-keys?after="+after, "", "x-admin-key", adminKey, "Accept-Encoding", "gzip").want(200)
		zipped.wantHeaders("Content-Encoding", "gzip", "Vary", "Accept-Encoding")
		is.Equal(string(zipped.body), string(response.body))
	}
	h.admin("HEAD", "/admin/api-keys", "").want(200)
}

// pagedKeys calls onPage before each page of a list.
type pagedKeys struct {
	keys.Store
	onPage func(rows keys.Range) error
}

func (s pagedKeys) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	if err := s.onPage(r); err != nil {
		return keys.Page{}, err
	}
	return s.Store.List(ctx, filter, r)
}

// TestKeys_LongListWhileKeysChange changes keys between the pages of a list: those
// that exist throughout appear once. Then the store fails after the first page.
func TestKeys_LongListWhileKeysChange(t *testing.T) {
	t.Parallel()
	store := pagedKeys{Store: memory.New().Keys()}
	service := must(keys.NewService(store.Store, nil))(t)
	h := serve(t, withKeys(&store))
	for range 3000 {
		must(service.Create(t.Context(), keys.Fields{}))(t)
	}
	store.onPage = func(rows keys.Range) error {
		if rows.After == 0 {
			return nil
		}
		for _, id := range []int64{1, rows.After, rows.After + 2} {
			if err := service.Delete(t.Context(), id); err != nil && !errors.Is(err, keys.ErrNotFound) {
				return err
			}
		}
		_, err := service.Create(t.Context(), keys.Fields{})
		return err
	}
	var want []int64
	for id := range int64(3002) {
		if id := id + 1; id != 1002 && id != 2003 {
			want = append(want, id)
		}
	}
	is.New(t).Equal(ids(h.admin("GET", "/admin/api-keys", "").want(200)), want)

	store.onPage = func(rows keys.Range) error {
		if rows.After > 0 {
			return errors.New("no connection")
		}
		return nil
	}
	h.wantTruncated("GET", "/admin/api-keys", "")
}

func TestKeys_RotateWithOverlap(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	status := func(raw any) int { return h.send("GET", "/symbol/folders", "", "x-api-key", raw.(string)).status }
	body := h.admin("POST", "/admin/api-keys/1/rotate", `{"overlapSeconds":60}`).want(200).object()
	is.Equal(body["key"].(map[string]any)["previousKeyExpiresAt"], "2026-03-30T10:01:00.123Z")
	is.True(strings.Contains(body["message"].(string), "2026-03-30T10:01:00.123Z"))
	is.Equal(status(h.rawKey), 200)
	is.Equal(status(body["apiKey"]), 200)
	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200)
	is.Equal(status(h.rawKey), 403)
	is.Equal(status(body["apiKey"]), 403)
	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":true}`).want(200)
	is.Equal(status(h.rawKey), 200)
	is.Equal(h.admin("GET", "/admin/api-keys/1", "").object()["useCount"], 3.0) // of both raw keys
	h.clock.Add(time.Minute)
	is.Equal(status(h.rawKey), 401)
	is.Equal(status(body["apiKey"]), 200)
	is.Equal(h.admin("GET", "/admin/api-keys/1", "").object()["previousKeyExpiresAt"], nil)

	for _, valid := range []string{"", "{}", `{"overlapSeconds":0}`, `{"overlapSeconds":604800,"unknown":1}`} {
		h.admin("POST", "/admin/api-keys/1/rotate", valid).want(200)
	}
	for _, invalid := range []string{"null", `"1"`, "-1", "604801", "1.5", "1.0", "1e1", "1E0", "true", "[]", "9223372036854775807", "9223372036854775808", "-9223372036854775808"} {
		h.admin("POST", "/admin/api-keys/1/rotate", `{"overlapSeconds":`+invalid+`}`).wantInvalid("overlapSeconds ")
	}
	h.admin("POST", "/admin/api-keys/1/rotate", `[`).wantError(400, "invalid_request")
	h.admin("POST", "/admin/api-keys/99/rotate", `{"overlapSeconds":-1}`).wantError(400, "invalid_request")
}

func TestKeys_EmptyBodyWorksWithAnyContentType(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "nonsense", ""} {
		for path, status := range map[string]int{"/admin/api-keys/1/rotate": 200, "/admin/api-keys": 201} {
			h.send("POST", path, "", "x-admin-key", adminKey, "Content-Type", contentType).want(status)
			h.send("POST", path, "{}", "x-admin-key", adminKey, "Content-Type", contentType).wantError(415, "unsupported_media_type")
		}
	}
}

// TestKeys_RotateAfterOverlap has a clock that is faster than a rotation.
func TestKeys_RotateAfterOverlap(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var now atomic.Int64
	h := serve(t, func(o *httpapi.Options) {
		o.Keys = must(keys.NewService(memory.New().Keys(), &keys.Options{Now: func() time.Time { return time.Unix(now.Add(60), 0) }}))(t)
	})
	h.admin("POST", "/admin/api-keys", "").want(201)
	body := h.admin("POST", "/admin/api-keys/1/rotate", `{"overlapSeconds":1}`).want(200).object()
	is.True(strings.Contains(body["message"].(string), "The previous key no longer works."))
	is.Equal(body["key"].(map[string]any)["previousKeyExpiresAt"], nil)
}

func TestKeys_ManyAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for range 3 {
		h.admin("POST", "/admin/api-keys", "").want(201)
	}
	var before [5]map[string]any
	record := func(id int) map[string]any {
		return h.admin("GET", fmt.Sprint("/admin/api-keys/", id), "").want(200).object()
	}
	for id := 1; id <= 4; id++ {
		before[id] = record(id)
	}
	h.clock.Add(time.Second)
	got := h.admin("PATCH", "/admin/api-keys",
		`{"ids":[4,2],"owner":"tenant 7","scopes":["a"],"isActive":true,"expiresAt":"2027-01-01","name":"ignored"}`).want(200)
	is.Equal(string(got.body), `{"updated":2}`)
	for id := 1; id <= 4; id++ {
		want := before[id]
		if id%2 == 0 {
			want["owner"], want["scopes"], want["expiresAt"] = "tenant 7", []any{"a"}, "2027-01-01T00:00:00.000Z"
			want["updatedAt"] = "2026-03-30T10:00:01.123Z"
		}
		is.Equal(record(id), want)
	}
	for body, updated := range map[string]string{
		`{"ids":[2,4],"owner":"tenant 7"}`:      "0", // equal values
		`{"ids":[1,2,3,4],"owner":"tenant 7"}`:  "2",
		`{"ids":[1]}`:                           "0",
		`{"ids":[3],"isActive":false,"name":1}`: "1", // an unknown field here
	} {
		h.admin("PATCH", "/admin/api-keys", body).wantBody(200, `{"updated":`+updated+`}`)
	}
	all := string(h.admin("GET", "/admin/api-keys", "").body)
	for _, path := range []string{"PATCH /admin/api-keys", "POST /admin/api-keys/delete"} {
		method, path, _ := strings.Cut(path, " ")
		for _, ids := range []string{"[]", "null", `"1"`, "[1,1]", "[0]", "[-1]", "[1.5]", `["1"]`, "[null]", "[" + strings.Repeat("1,", 1000) + "1]"} {
			h.admin(method, path, `{"isActive":false,"ids":`+ids+`}`).wantInvalid("ids")
		}
		h.admin(method, path, `{}`).wantError(400, "invalid_request")
		got := h.admin(method, path, `{"isActive":false,"ids":[1,2,9,8]}`).wantError(404, "not_found")
		is.Equal(got.message(), "no API key has the id 9")
	}
	h.admin("PATCH", "/admin/api-keys", `{"ids":[9],"scopes":["A"]}`).wantError(400, "invalid_request")
	is.Equal(string(h.admin("GET", "/admin/api-keys", "").body), all) // unchanged

	h.admin("POST", "/admin/api-keys/delete", `{"ids":[4,1]}`).wantBody(200, `{"deleted":2}`)
	is.Equal(len(h.admin("GET", "/admin/api-keys", "").array()), 2)
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized")
	h.admin("GET", "/admin/api-keys/delete", "").wantError(405, "method_not_allowed").wantHeaders("Allow", "POST")
	h.admin("DELETE", "/admin/api-keys/delete", "").wantError(405, "method_not_allowed")
	h.admin("DELETE", "/admin/api-keys", "").wantError(405, "method_not_allowed")
}

func TestKeys_Conflicts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	const path = "/admin/api-keys/1"
	send := func(method, path, body, name, tag string) response {
		return h.send(method, path, body, "x-admin-key", adminKey, name, tag)
	}
	get := h.admin("GET", path, "").want(200)
	tag := get.header.Get("ETag")
	get.wantHeaders("Cache-Control", "no-store")
	h.client("GET", "/symbol/folders", "").want(200)
	send("GET", path, "", "If-None-Match", tag).want(200).wantHeaders("ETag", tag) // a use keeps it, and it is ignored
	h.admin("POST", "/admin/api-keys", "").want(201).wantHeaders("ETag", "")
	is.True(h.admin("GET", "/admin/api-keys/2", "").header.Get("ETag") != tag)

	seen := map[string]bool{tag: true}
	for _, body := range []string{`{"name":"Viewer"}`, `{"isActive":false}`, `{"expiresAt":"2027-01-01"}`, `{"owner":"a"}`, `{"scopes":[]}`, `{"scopes":["a"]}`} {
		for _, stale := range []string{`"other"`, `W/"x"`, "nonsense", ""} {
			send("PATCH", path, body, "If-Match", stale).wantError(412, "precondition_failed")
		}
		tag = send("PATCH", path, body, "If-Match", `"x", W/`+tag).want(200).header.Get("ETag")
		is.True(!seen[tag]) // changes
		seen[tag] = true
		h.admin("PATCH", path, body).want(200).wantHeaders("ETag", tag) // equal values
		h.admin("GET", path, "").want(200).wantHeaders("ETag", tag)
	}
	send("PATCH", path, `{"name":""}`, "If-Match", `"x"`).wantError(400, "invalid_request")
	send("PATCH", "/admin/api-keys/9", `{}`, "If-Match", `"x"`).wantError(404, "not_found")
	send("DELETE", "/admin/api-keys/9", "", "If-Match", `"x"`).wantError(404, "not_found")
	send("POST", path+"/rotate", "", "If-Match", `"x"`).wantError(412, "precondition_failed")
	is.Equal(h.admin("GET", path, "").header.Get("ETag"), tag)
	send("POST", path+"/rotate", "", "If-Match", tag).want(200)
	send("DELETE", path, "", "If-Match", tag).wantError(412, "precondition_failed") // another raw key
	send("DELETE", path, "", "If-Match", h.admin("GET", path, "").header.Get("ETag")).want(200)
	is.True(send("DELETE", "/admin/api-keys/2", "", "If-Match", "*").want(200).message() != "")
	h.admin("DELETE", "/admin/api-keys/2", "").wantError(404, "not_found")
	h.admin("GET", "/admin/api-keys/2", "").wantError(404, "not_found")
	h.admin("GET", "/admin/api-keys", "").wantBody(200, "[]")
}

func TestKeys_Usage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	flush := func() { cancel(); running.Wait() } // writes what is left
	running.Go(func() { h.options.Keys.Run(ctx) })
	h.listen(httpapi.Handler(&h.options))
	other := h.keyOf("")
	h.admin("PATCH", "/admin/api-keys/2", `{"owner":"tenant 7"}`).want(200)
	token := h.token("")
	for range 3 {
		h.client("GET", "/symbol/folders", "").want(200)
		h.send("GET", "/symbol/folders", "", "x-api-key", token).want(200)
		h.send("GET", "/symbol/folders", "", "x-api-key", other).want(200)
	}
	h.client("GET", "/viewer/key", "").want(200) // no use
	h.clock.Add(14 * time.Hour)                  // the next day
	h.client("GET", "/symbol/folders", "").want(200)
	flush()
	get := func(path string) string { return string(h.admin("GET", path, "").want(200).body) }
	is.Equal(get("/admin/api-keys/1/usage?days=3"), `[{"day":"2026-03-29","requests":0},{"day":"2026-03-30","requests":7},{"day":"2026-03-31","requests":1}]`)
	is.Equal(len(h.admin("GET", "/admin/api-keys/2/usage", "").want(200).array()), 30)
	is.Equal(get("/admin/usage?days=2"), `[{"day":"2026-03-30","requests":10},{"day":"2026-03-31","requests":1}]`)
	is.Equal(get("/admin/usage?days=2&owner=tenant+7"), `[{"day":"2026-03-30","requests":3},{"day":"2026-03-31","requests":0}]`)
	is.Equal(get("/admin/usage?days=1&ids=2,1"), `[{"id":2,"days":[{"day":"2026-03-31","requests":0}]},{"id":1,"days":[{"day":"2026-03-31","requests":1}]}]`)
	h.admin("PATCH", "/admin/api-keys/2", `{"owner":"other"}`).want(200)
	h.admin("DELETE", "/admin/api-keys/2", "").want(200)
	is.Equal(get("/admin/usage?days=2&owner=tenant+7"), `[{"day":"2026-03-30","requests":3},{"day":"2026-03-31","requests":0}]`) // as it was then
	h.admin("GET", "/admin/api-keys/2/usage", "").wantError(404, "not_found")
	h.admin("GET", "/admin/usage?ids=1,2", "").wantError(404, "not_found")
	for _, path := range []string{"/admin/api-keys/1/usage?days=", "/admin/usage?days="} {
		for _, days := range []string{"0", "401", "-1", "x", "", "01", "1&days=1"} {
			h.admin("GET", path+days, "").wantInvalid("days")
		}
	}
	for _, ids := range []string{"", "0", "x", "1,", "1,1", "01", "-1", "1,2;3", strings.Repeat("1,", 100) + "1"} {
		h.admin("GET", "/admin/usage?ids="+url.QueryEscape(ids), "").wantInvalid("ids")
	}
	h.admin("GET", "/admin/usage?owner=", "").wantError(400, "invalid_request")
	h.admin("GET", "/admin/api-keys/x/usage", "").wantError(400, "invalid_request")
}
