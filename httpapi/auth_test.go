package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// TestAdminKey has two keys, and keys that are nearly right. TestAuth_AllRoutesAndCredentials
// has other credentials.
func TestAdminKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.AdminKeys = []string{"", "first", "second"} })
	for _, valid := range []string{"first", "second"} {
		h.send("GET", "/admin/api-keys", "", "x-admin-key", valid).want(200)
		h.send("GET", "/admin/api-keys", "", "X-ADMIN-KEY", valid).want(200)
	}
	for _, headers := range [][]string{
		nil,
		{"x-admin-key", "firs"},
		{"x-admin-key", "firstt"},
		{"x-admin-key", "First"},
		{"x-admin-key", "first", "x-admin-key", "second"},
		{"x-admin-key2", "first"},
		{"Authorization", "first"},
	} {
		response := h.send("GET", "/admin/api-keys", "", headers...).wantError(401, "unauthorized")
		is.Equal(response.header.Get("WWW-Authenticate"), `ApiKey header="x-admin-key"`)
	}
	is.True(!strings.Contains(h.log.String(), "firstt")) // keys are not logged
	is.Equal(h.send("GET", "/admin/api-keys", "", "x-api-key", "first").message(), "x-admin-key is missing or sent more than once")
	is.Equal(h.send("GET", "/admin/api-keys", "", "x-admin-key", h.rawKey).message(), "x-admin-key is not a valid key")
}

func TestAdminKey_NoneConfiguredIs403(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.AdminKeys = []string{""} })
	for _, headers := range [][]string{nil, {"x-admin-key", ""}, {"x-admin-key", "x"}} {
		response := h.send("GET", "/admin/api-keys", "", headers...).wantError(403, "forbidden")
		is.True(strings.Contains(response.message(), "no admin key is configured"))
	}
}

// foreignKey returns a well-formed raw key of another installation.
func foreignKey(t *testing.T) string {
	t.Helper()
	service := must(keys.NewService(memory.New().Keys(), nil))(t)
	return string(must(service.Create(t.Context(), keys.Fields{}))(t).Raw)
}

// findHook is a store that calls a function before it reads a key.
type findHook struct {
	keys.Store
	before func(ctx context.Context) error
}

func (s findHook) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if err := s.before(ctx); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Find(ctx, digest)
}

// failingKeys is a store whose reads fail.
var failingKeys = findHook{memory.New().Keys(), func(context.Context) error {
	return errors.New("dial tcp 10.0.0.1:5432: secret detail")
}}

func TestClientKey_StoreUnavailableIs503(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for name, store := range map[string]keys.Store{
		"failing": failingKeys,
		"hanging": findHook{memory.New().Keys(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Log(name)
		h := serve(t, func(o *httpapi.Options) {
			o.Keys = must(keys.NewService(store, &keys.Options{ReadTimeout: 50 * time.Millisecond}))(t)
		})
		response := h.client("GET", "/symbol/folders", "").wantError(503, "unavailable")
		is.True(response.header.Get("Retry-After") != "")
		is.True(!strings.Contains(string(response.body), "secret detail"))
	}
}

func TestRateLimit_LimitsWrongKeysOnly(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Limits.WrongKeys = httpapi.RateLimit{Burst: 3, Interval: time.Minute}
		o.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Real-IP") }
	})
	send := func(ip, header, key string) response {
		return h.send("GET", map[string]string{"x-api-key": "/symbol/folders", "x-admin-key": "/admin/api-keys"}[header], "", header, key, "X-Real-IP", ip)
	}
	send("a", "x-api-key", "junk").wantError(401, "unauthorized")
	send("a", "x-api-key", foreignKey(t)).wantError(401, "unauthorized")
	send("a", "x-api-key", "wrong").wantError(401, "unauthorized")
	send("a", "x-api-key", "wrong").wantError(429, "too_many_requests")
	for range 3 { // counted apart
		send("a", "x-admin-key", "wrong").wantError(401, "unauthorized")
	}
	for _, header := range []string{"x-api-key", "x-admin-key"} {
		send("a", header, "wrong").wantError(429, "too_many_requests").wantRetryAfter(time.Minute)
	}
	send("a", "x-api-key", h.rawKey).want(200) // valid keys pass
	useUp := func(ip string) {                 // responses after three rejections are delayed
		for range 3 {
			send(ip, "x-api-key", "wrong").wantError(401, "unauthorized")
			send(ip, "x-admin-key", "wrong").wantError(401, "unauthorized")
		}
	}
	useUp("d")
	send("d", "x-admin-key", adminKey).wantError(429, "too_many_requests") // a response does not reveal whether a key is one
	send("b", "x-admin-key", adminKey).want(200)
	send("d", "x-admin-key", h.rawKey).wantError(429, "too_many_requests") // but not in the other header
	send("d", "x-api-key", adminKey).wantError(429, "too_many_requests")
	send("b", "x-admin-key", "wrong").wantError(401, "unauthorized")                      // other clients
	h.send("GET", "/symbol/folders", "", "X-Real-IP", "a").wantError(401, "unauthorized") // a missing key does not count

	send("c", "x-admin-key", adminKey).want(200)
	useUp("c")
	send("c", "x-admin-key", adminKey).want(200) // was used rightly by this IP before
	send("c", "x-admin-key", "wrong").wantError(429, "too_many_requests")
}
