package httpapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/crypto/bcrypt"
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

// TestAdminKeys_WrongKeysDelayNoOther floods the comparison from one client IP.
func TestAdminKeys_WrongKeysDelayNoOther(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), 8)
	is.NoErr(err)
	k := newHashedAdminKeys(t, string(hash))
	start := time.Now()
	number, err := k.compare(t.Context(), "192.0.2.1", "wrong")
	is.NoErr(err)
	is.Equal(number, 0)
	single := time.Since(start)

	ctx, cancel := context.WithCancel(t.Context())
	var wrong sync.WaitGroup
	for i := range 1000 {
		wrong.Go(func() { k.compare(ctx, "192.0.2.1", fmt.Sprint("wrong ", i)) })
	}
	defer wrong.Wait()
	defer cancel()
	time.Sleep(10 * single)
	start = time.Now()
	number, err = k.compare(t.Context(), "192.0.2.7", "right")
	is.NoErr(err)
	is.Equal(number, 1)
	t.Logf("a comparison takes %v, the right key from elsewhere waits %v", single, time.Since(start))
	is.True(time.Since(start) < 500*single) // not for the queue
	number, slow := k.find("right")
	is.Equal(number, 1)
	is.True(!slow) // remembered
	is.Equal(len(k.turn), 1)
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
