package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"golang.org/x/crypto/bcrypt"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// hashKey returns a bcrypt hash of low cost.
func hashKey(tb testing.TB, key string) string {
	hash, err := bcrypt.GenerateFromPassword([]byte(key), bcrypt.MinCost)
	is.New(tb).NoErr(err)
	return string(hash)
}

func newHashedAdminKeys(tb testing.TB, list ...string) *adminKeys {
	k, err := newAdminKeys(list)
	is.New(tb).NoErr(err)
	return k
}

// lookup is the complete check of a key.
func (k *adminKeys) lookup(t testing.TB, key string) int {
	number, slow := k.find(key)
	if slow {
		var err error
		number, err = k.compare(t.Context(), "192.0.2.1", key)
		is.New(t).NoErr(err)
	}
	return number
}

func TestAdminKeys_AcceptsHashes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	hash := hashKey(t, "hashed")
	long := strings.Repeat("x", maxBcryptKey)
	k := newHashedAdminKeys(t, "clear", "", hash, "$2y$"+hash[4:], hashKey(t, "other"), hashKey(t, long), "clear", "$2x$ is clear")
	for range 3 {
		is.Equal(k.lookup(t, "clear"), 7)
		if n := k.lookup(t, "hashed"); n != 3 && n != 4 {
			t.Errorf("number %d", n)
		}
		is.Equal(k.lookup(t, "other"), 5)
		is.Equal(k.lookup(t, long), 6)
		is.Equal(k.lookup(t, "$2x$ is clear"), 8)
		for _, wrong := range []string{"", "hashe", "hashed ", hash, long + "x", long[1:], strings.Repeat("x", 1<<20), "$2a$"} {
			is.Equal(k.lookup(t, wrong), 0)
		}
	}
}

func TestAdminKeys_RejectsMalformedHashes(t *testing.T) {
	t.Parallel()
	hash := hashKey(t, "key")
	for _, malformed := range []string{
		"$2a$", hash[:59], hash + "x", hash[:59] + "!", "$2b$03" + hash[6:], "$2b$32" + hash[6:], "$2b$17" + hash[6:], "$2b$xx" + hash[6:], "$2y$10$",
	} {
		_, err := newAdminKeys([]string{"clear", malformed})
		if err == nil || !strings.Contains(err.Error(), "admin key 2") || strings.Contains(err.Error(), malformed) {
			t.Errorf("%q: error %v", malformed, err)
		}
	}
}

// TestAdminKeys_WrongKeysDelayNoOther sends 10,000 wrong keys, half of them from one
// client IP, and then the right key for the first time.
func TestAdminKeys_WrongKeysDelayNoOther(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clientKeys, err := keys.NewService(memory.New().Keys(), nil)
	is.NoErr(err)
	a, err := New(Options{
		Keys:          clientKeys,
		AdminKeys:     []string{hashKey(t, "right")},
		AuthRateLimit: RateLimit{Burst: -1, ClientIP: func(r *http.Request) string { return r.RemoteAddr }},
		Logger:        slog.New(slog.DiscardHandler),
	})
	is.NoErr(err)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		send := func(ip, key string) int {
			r := httptest.NewRequestWithContext(ctx, "GET", "/admin/api-keys", nil)
			r.RemoteAddr = ip
			r.Header.Set("x-admin-key", key)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			done.Add(1)
			return w.Code
		}
		turns := a.admin.turns
		is.NoErr(turns.acquire(ctx, "occupied"))
		var wrong sync.WaitGroup
		for i := range 5000 {
			wrong.Go(func() { send("192.0.2.1", fmt.Sprint("wrong ", i)) })
			wrong.Go(func() { send(fmt.Sprint("client ", i), "wrong") })
		}
		synctest.Wait() // all wait for the one turn
		is.Equal(done.Load(), int32(0))
		is.Equal(len(turns.waiting), 10_000)

		status := make(chan int)
		go func() { status <- send("192.0.2.7", "right") }()
		synctest.Wait()
		turns.release()
		is.Equal(<-status, 200)
		is.True(done.Load() < 1000) // and not 10,000; the others go on meanwhile
		done.Store(0)
		is.Equal(send("192.0.2.7", "right"), 200) // needs no turn
		is.True(done.Load() < 1000)

		cancel()
		wrong.Wait()
		synctest.Wait()
		is.True(!turns.held)
		is.Equal(len(turns.waiting), 0)
	})
}

// TestAdminKeys_WaitIsBounded: a request that gets no turn in time has checked no key.
func TestAdminKeys_WaitIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clientKeys, err := keys.NewService(memory.New().Keys(), nil)
	is.NoErr(err)
	a, err := New(Options{Keys: clientKeys, AdminKeys: []string{hashKey(t, "right")}, Logger: slog.New(slog.DiscardHandler)})
	is.NoErr(err)
	synctest.Test(t, func(t *testing.T) {
		is.NoErr(a.admin.turns.acquire(t.Context(), "occupied"))
		for _, timeout := range []time.Duration{time.Second, time.Hour} { // of the application, or StoreTimeout
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			r := httptest.NewRequestWithContext(ctx, "GET", "/admin/api-keys", nil)
			r.Header.Set("x-admin-key", "right")
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			cancel()
			is.Equal(w.Code, 503)
			is.Equal(w.Header().Get("Retry-After"), "1")
			is.Equal(time.Since(start), min(timeout, a.options.StoreTimeout))
		}
	})
}

func TestTurns_PreferClientIPsWithFewerTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		turns := newTurns()
		is.NoErr(turns.acquire(t.Context(), "a"))
		var order []string
		var waiting sync.WaitGroup
		wait := func(ctx context.Context, ip string) {
			waiting.Go(func() {
				if turns.acquire(ctx, ip) == nil {
					order = append(order, ip)
					turns.release()
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, ip := range []string{"a", "b", "b", "c", "b", "a"} {
			wait(t.Context(), ip)
		}
		wait(ctx, "d") // disconnects
		wait(t.Context(), "a")
		turns.reset("a")
		wait(t.Context(), "a")
		cancel()
		synctest.Wait()
		turns.release()
		waiting.Wait()
		is.Equal(order, []string{"a", "c", "b", "b", "a", "a", "b", "a"})

		for i := range 2 * maxClientIPs {
			is.NoErr(turns.acquire(t.Context(), fmt.Sprint(i)))
			turns.release()
		}
		is.True(len(turns.counts) <= maxClientIPs)
	})
}

func BenchmarkAdminKey(b *testing.B) {
	clear := newHashedAdminKeys(b, "right")
	hashed := newHashedAdminKeys(b, hashKey(b, "right"))
	hashed.lookup(b, "right")
	for name, k := range map[string]*adminKeys{"clear": clear, "hashed": hashed} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k.find("right")
			}
		})
	}
	b.Run("first", func(b *testing.B) {
		hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.DefaultCost)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			newHashedAdminKeys(b, string(hash)).lookup(b, "right")
		}
	})
}
