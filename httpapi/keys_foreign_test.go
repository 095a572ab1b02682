package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestKeys_Import(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	const path, raw = "/admin/api-keys/import", "sk-of-another-system"
	digest := func(raw string) string {
		sum := sha256.Sum256([]byte(raw))
		return hex.EncodeToString(sum[:])
	}
	got := h.admin("POST", path, fmt.Sprintf(`{"keys":[`+
		`{"sha256":%q,"keyPrefix":"sk-of","owner":"tenant 7","scopes":["symbols:read"],"expiresAt":"2026-12-31"},{"sha256":%q}]}`,
		strings.ToUpper(digest(raw)), digest("the-other-raw-key")))
	got.wantBody(201, `{"imported":2,"ids":[2,3]}`)
	record := h.admin("GET", "/admin/api-keys/2", "").want(200).object()
	is.Equal(record["maskedKey"], "sk-of...")
	is.Equal(record["keyPrefix"], "sk-of")
	is.Equal(record["name"], "API key")
	is.Equal(record["owner"], "tenant 7")
	h.send("GET", "/symbol/folders", "", "x-api-key", raw).want(200)
	h.send("POST", "/symbol/folders", "{}", "x-api-key", raw).want(403)
	token, _ := h.send("POST", "/viewer/tokens", "", "x-api-key", raw).want(201).object()["token"].(string)
	h.send("GET", "/symbol/folders", "", "x-api-key", token).want(200)

	for body, want := range map[string]string{
		`{}`: "keys must be", `{"keys":[]}`: "keys must be", `{"keys":{}}`: "keys must be an array",
		`{"keys":[{}]}`:           "keys[0].sha256",
		`{"keys":[{"sha256":1}]}`: "keys[0].sha256",
		`{"keys":[{"sha256":"` + strings.Repeat("0", 63) + `x"}]}`:                                      "keys[0].sha256",
		`{"keys":[{"sha256":"` + strings.Repeat("1", 66) + `"}]}`:                                       "keys[0].sha256",
		`{"keys":[{"sha256":"` + digest("a") + `"},{"sha256":"` + digest("b") + `","name":""}]}`:        "keys[1].name",
		`{"keys":[{"sha256":"` + digest("a") + `","scopes":["A"]}]}`:                                    "keys[0].scopes",
		`{"keys":[{"sha256":"` + digest("a") + `","expiresAt":"x"}]}`:                                   "keys[0].expiresAt",
		`{"keys":[{"sha256":"` + digest("a") + `","keyPrefix":null}]}`:                                  "keys[0].keyPrefix",
		`{"keys":[{"sha256":"` + digest("a") + `","keyPrefix":"` + strings.Repeat("x", 33) + `"}]}`:     "keys[0].keyPrefix",
		`{"keys":[{"sha256":"` + digest("a") + `"},{"sha256":"` + strings.ToUpper(digest("a")) + `"}]}`: "keys[1].sha256",
	} {
		h.admin("POST", path, body).wantInvalid(want)
	}
	message := h.admin("POST", path, `{"keys":[{"sha256":"`+digest("a")+`"},{"sha256":"`+digest(raw)+`"}]}`).wantError(409, "conflict").message()
	is.True(strings.HasPrefix(message, "keys[1].sha256"))
	h.admin("GET", path, "").wantError(405, "method_not_allowed")
	is.Equal(len(h.admin("GET", "/admin/api-keys", "").array()), 3)
}

func TestKeys_RevokeByPossession(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Limits.WrongKeys = httpapi.RateLimit{Burst: 2, Interval: time.Hour}
		o.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Real-IP") }
	})
	const path = "/viewer/key/revoke"
	token := h.token("")
	unknown := foreignKey(t)
	revoke := func(ip string, raws ...string) response {
		return h.send("POST", path, `{"apiKeys":["`+strings.Join(raws, `","`)+`"]}`, "X-Real-IP", ip)
	}
	revoke("a", token, "x", unknown).wantBody(200, `{"revoked":0}`)
	revoke("a", h.rawKey, unknown, unknown).wantError(429, "too_many_requests").wantRetryAfter(time.Hour)
	h.client("GET", "/symbol/folders", "").want(200)
	revoke("a", h.rawKey, h.rawKey).wantBody(200, `{"revoked":1}`)
	h.client("GET", "/symbol/folders", "").want(403)
	h.send("GET", "/symbol/folders", "", "x-api-key", token).want(403)
	for _, body := range []string{`{}`, `{"apiKeys":[]}`, `{"apiKeys":"x"}`, `{"apiKeys":[1]}`, `{"apiKeys":["x",null]}`} {
		h.send("POST", path, body).wantInvalid("apiKeys")
	}
}

func TestKeys_RevokeByPossessionWithoutStore(t *testing.T) {
	t.Parallel()
	h := serve(t, withKeys(failingKeys))
	h.send("POST", "/viewer/key/revoke", `{"apiKeys":["`+h.rawKey+`"]}`).wantError(503, "unavailable")
}

func TestRoutes_Optional(t *testing.T) {
	t.Parallel()
	h := serve(t, withKeys(memory.New().Keys()), func(o *httpapi.Options) { o.RevokeRoute = false })
	h.send("POST", "/viewer/key/revoke", `{"apiKeys":["x"]}`).wantError(404, "not_found")
	h.admin("POST", "/admin/api-keys/import", `{}`).wantError(405, "method_not_allowed")
	peppered := serve(t, func(o *httpapi.Options) {
		o.Keys = must(keys.NewService(memory.New().Keys(), &keys.Options{ForeignKeys: true, Pepper: []byte("x")}))(t)
	})
	peppered.admin("POST", "/admin/api-keys/import", `{"keys":[{"sha256":"`+strings.Repeat("1", 64)+`"}]}`).wantError(400, "invalid_request")
}
