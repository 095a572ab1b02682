package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestHints(t *testing.T) {
	t.Parallel()
	h := start(t)
	mask := h.admin("GET", "/admin/api-keys/1", "").want(200).object()["maskedKey"].(string)
	stranger, err := keys.NewService(memory.New().Keys(), nil).Create(t.Context(), keys.Fields{})
	if err != nil {
		t.Fatal(err)
	}
	const (
		client = "/symbol/folders"
		admin  = "/admin/api-keys"
	)
	for _, c := range []struct {
		path    string
		headers []string
		want    string // in the message; the rest is as ever
	}{
		{client, []string{"x-admin-key", adminKey}, "x-admin-key holds an admin key; this route wants a client key as x-api-key"},
		{client, []string{"x-api-key", adminKey}, "x-api-key holds an admin key; this route wants a client key as x-api-key"},
		{client, []string{"x-admin-key", h.raw}, "x-admin-key holds a client key; this route wants a client key as x-api-key"},
		{client, []string{"Authorization", "Bearer " + h.raw}, "authorization holds a client key"},
		{client, []string{"x-access-token", h.raw}, "x-access-token holds a client key"},
		{client, []string{"x-api-key", mask}, "x-api-key holds a masked key, which is for display only"},
		{admin, []string{"x-api-key", adminKey}, "x-api-key holds an admin key; this route wants an admin key as x-admin-key"},
		{admin, []string{"x-api-key", h.raw}, "x-api-key holds a client key; this route wants an admin key as x-admin-key"},
		{admin, []string{"x-admin-key", h.raw}, "x-admin-key holds a client key; this route wants an admin key as x-admin-key"},

		// Nothing is told to a stranger.
		{client, nil, "x-api-key is missing or was sent more than once"},
		{client, []string{"x-admin-key", "wrong"}, "x-api-key is missing or was sent more than once"},
		{client, []string{"x-admin-key", string(stranger.Raw)}, "x-api-key is missing or was sent more than once"},
		{client, []string{"Authorization", "Bearer " + string(stranger.Raw)}, "x-api-key is missing or was sent more than once"},
		{client, []string{"Authorization", adminKey}, "x-api-key is missing or was sent more than once"}, // hosts have secrets of their own there
		{client, []string{"x-api-key", "wrong"}, "x-api-key is not a valid key"},
		{client, []string{"x-api-key", string(stranger.Raw)}, "x-api-key is not a valid key"},
		{admin, nil, "x-admin-key is missing or was sent more than once"},
		{admin, []string{"x-api-key", "wrong"}, "x-admin-key is missing or was sent more than once"},
		{admin, []string{"x-admin-key", string(stranger.Raw)}, "x-admin-key is wrong"},
	} {
		answer := h.send("GET", c.path, "", c.headers...).wantError(401, "unauthorized")
		if !strings.HasPrefix(answer.message(), c.want) {
			t.Errorf("%s with %q: message is %q, want %q", c.path, c.headers, answer.message(), c.want)
		}
		wanted := `ApiKey header="x-api-key"`
		if c.path == admin {
			wanted = `ApiKey header="x-admin-key"`
		}
		if got := answer.header.Get("WWW-Authenticate"); got != wanted {
			t.Errorf("%s with %q: WWW-Authenticate is %q", c.path, c.headers, got)
		}
	}
}

func TestHints_inactiveAndExpired(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := start(t)
	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200)
	is.True(strings.Contains(h.client("GET", "/symbol/folders", "").wantError(403, "forbidden").message(), "an administrator can activate it"))
	h.admin("PATCH", "/admin/api-keys/1", `{"isActive":true,"expiresAt":"2026-03-30T10:00:01Z"}`).want(200)
	h.clock.Add(time.Minute)
	is.True(strings.Contains(h.client("GET", "/symbol/folders", "").wantError(403, "forbidden").message(), "later expiresAt"))
	answer := h.send("GET", "/symbol/folders", "", "x-admin-key", h.raw).wantError(401, "unauthorized")
	is.True(strings.HasPrefix(answer.message(), "x-admin-key holds a client key")) // it is its holder all the same
}

// TestHints_areNoUse: a key that is recognised where it does not let anything
// through has not been accepted.
func TestHints_areNoUse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := start(t)
	for _, c := range []struct{ path, header, value string }{
		{"/admin/api-keys", "x-admin-key", h.raw},
		{"/admin/api-keys", "x-api-key", h.raw},
		{"/admin/api-keys", "Authorization", "Bearer " + h.raw},
		{"/symbol/folders", "x-admin-key", h.raw},
		{"/symbol/folders", "x-access-token", h.raw},
	} {
		answer := h.send("GET", c.path, "", c.header, c.value).wantError(401, "unauthorized")
		is.True(strings.Contains(answer.message(), "holds a client key"))
		is.Equal(h.admin("GET", "/admin/api-keys/1", "").want(200).object()["lastUsedAt"], nil)
	}
	h.client("GET", "/symbol/folders", "").want(200)
	is.Equal(h.admin("GET", "/admin/api-keys/1", "").want(200).object()["lastUsedAt"], "2026-03-30T10:00:00.123Z")
}

// slowKeys is a store that says of no key that it knows it, and takes a while.
type slowKeys struct {
	keys.Store
	takes time.Duration
	finds atomic.Int64
}

func (s *slowKeys) Find(ctx context.Context, _ keys.Digest) (keys.Key, error) {
	s.finds.Add(1)
	select {
	case <-time.After(s.takes):
		return keys.Key{}, keys.ErrNotFound
	case <-ctx.Done():
		return keys.Key{}, ctx.Err()
	}
}

// TestHints_areNotWaitedFor sends keys to a slow store from four places at once.
func TestHints_areNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes, timeout time.Duration // of the store
		finds          int64
		atMost         time.Duration
	}{
		{time.Millisecond, 5 * time.Second, 4, 4 * time.Millisecond},
		{400 * time.Millisecond, 5 * time.Second, 3, time.Second}, // each in time, but not all
		{time.Hour, 5 * time.Second, 1, time.Second},              // it is frozen
		{time.Hour, 50 * time.Millisecond, 1, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			store := &slowKeys{Store: memory.New().Keys(), takes: c.takes}
			handler := httpapi.Handler(httpapi.Options{
				Keys:      keys.NewService(store, &keys.Options{ReadTimeout: c.timeout}),
				AdminKeys: []string{adminKey},
				Guessing:  httpapi.Guessing{Burst: 1, Interval: time.Hour},
				Logger:    slog.New(slog.DiscardHandler),
			})
			send := func() *httptest.ResponseRecorder {
				request := httptest.NewRequest("GET", "/admin/api-keys", nil)
				for _, header := range []string{"X-Admin-Key", "X-Api-Key", "Authorization", "X-Access-Token"} {
					request.Header.Set(header, foreignKey(t))
				}
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				return recorder
			}
			began := time.Now()
			is.Equal(send().Code, 401)
			is.True(time.Since(began) <= c.atMost)
			is.Equal(store.finds.Load(), c.finds)
			is.Equal(send().Code, 429) // it was a guess nevertheless
		})
	}
}

// TestHints_ofAdminKeysNeedNoStore: what can be told without the store is told
// while it does not answer.
func TestHints_ofAdminKeysNeedNoStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := start(t, func(o *httpapi.Options) {
		o.Keys = keys.NewService(failingKeys{memory.New().Keys()}, nil)
	})
	answer := h.send("GET", "/admin/api-keys", "", "x-admin-key", foreignKey(t), "x-api-key", adminKey).wantError(401, "unauthorized")
	is.True(strings.HasPrefix(answer.message(), "x-api-key holds an admin key"))
}

// TestHints_areNoWayToGuess sends guesses where they do not belong, beside a
// good key of the other kind.
func TestHints_areNoWayToGuess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path    string
		headers func(h *harness) []string
	}{
		{"/symbol/folders", func(*harness) []string { return []string{"x-admin-key", "guess"} }},
		{"/admin/api-keys", func(*harness) []string { return []string{"x-api-key", "guess"} }},
		{"/admin/api-keys", func(h *harness) []string { return []string{"x-api-key", h.raw, "x-admin-key", "guess"} }},
		{"/symbol/folders", func(*harness) []string { return []string{"x-api-key", "guess", "x-admin-key", adminKey} }},
		{"/symbol/folders", func(h *harness) []string {
			return []string{"x-admin-key", "guess", "Authorization", "Bearer " + h.raw}
		}},
		{"/admin/api-keys", func(h *harness) []string { return []string{"x-api-key", "guess", "x-access-token", h.raw} }},
		{"/symbol/folders", func(*harness) []string { return []string{"x-admin-key", "guess with **** like a mask"} }},
		{"/admin/api-keys", func(*harness) []string { return []string{"x-api-key", "guess with **** like a mask"} }},
	} {
		h := start(t, func(options *httpapi.Options) {
			options.Guessing = httpapi.Guessing{Burst: 3, Interval: time.Hour}
		})
		for range 3 {
			h.send("GET", c.path, "", c.headers(h)...).wantError(http.StatusUnauthorized, "unauthorized")
		}
		h.send("GET", c.path, "", c.headers(h)...).wantError(http.StatusTooManyRequests, "too_many_requests")
	}
}
