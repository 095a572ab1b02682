package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"golang.org/x/crypto/bcrypt"

	"example.com/canvasback/keys"
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

// lookup is the complete check of a key. It returns its number, or zero.
func (k *adminKeys) lookup(t testing.TB, key string) int {
	found, slow := k.find(key)
	if slow {
		var err error
		found, err = k.compare(t.Context(), key)
		is.New(t).NoErr(err)
	}
	return cmp.Or(found, new(adminKey)).number
}

func TestAdminKeys_AcceptsHashes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	hash := hashKey(t, "hashed")
	long := strings.Repeat("x", maxBcryptKey)
	k := newHashedAdminKeys(t, "clear", " \n", hash+"\n", "$2y$"+hash[4:], hashKey(t, "other"), hashKey(t, long), " clear\r\n", "$2x$ is clear")
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

// TestAdminKeys_ComparesARightKeyOnce has a request that waits while another one
// compares the same key.
func TestAdminKeys_ComparesARightKeyOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	k := newHashedAdminKeys(t, hashKey(t, "hashed"))
	k.comparing <- struct{}{}
	done := make(chan *adminKey)
	go func() {
		found, _ := k.compare(t.Context(), "hashed")
		done <- found
	}()
	remembered := new(sha256.Sum256([]byte("hashed")))
	k.list[0].digest.Store(remembered)
	<-k.comparing
	is.Equal(<-done, k.list[0])
	is.True(k.list[0].digest.Load() == remembered) // a comparison would store another one
}

func TestAdminKeys_RejectsMalformedHashes(t *testing.T) {
	t.Parallel()
	hash := hashKey(t, "key")
	newHashedAdminKeys(t, "$2b$16"+hash[6:]) // the maximum cost
	for _, malformed := range []string{
		"$2a$", hash[:59], hash + "x", hash[:59] + "!", "$2b$03" + hash[6:], "$2b$32" + hash[6:], "$2b$17" + hash[6:], "$2b$xx" + hash[6:], "$2y$10$",
	} {
		_, err := newAdminKeys([]string{"clear", malformed})
		if err == nil || !strings.Contains(err.Error(), "admin key 2") || strings.Contains(err.Error(), malformed) {
			t.Errorf("%q: error %v", malformed, err)
		}
	}
}

// TestChecker_WaitIsBounded: a request that cannot compare in time has checked no key, and
// does not count as a wrong one.
func TestChecker_WaitIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const limit = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		checker, err := New(Options{AdminKeys: []string{hashKey(t, "right")}, Burst: 1, Interval: time.Hour, Timeout: limit})
		is.NoErr(err)
		checker.admin.comparing <- struct{}{}
		for _, timeout := range []time.Duration{time.Second, time.Hour} { // of the request
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, err := checker.Admin(ctx, "192.0.2.1", []string{"right"})
			cancel()
			is.True(errors.Is(err, keys.ErrUnavailable))
			is.Equal(time.Since(start), min(timeout, limit))
		}
	})
}

// TestChecker_NetworksCompareInTurn has a right key behind many wrong ones of another client
// IP: it waits for one of them.
func TestChecker_NetworksCompareInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		checker, err := New(Options{AdminKeys: []string{hashKey(t, "right")}, Burst: 100, Interval: time.Hour, Timeout: time.Hour})
		is.NoErr(err)
		checker.admin.comparing <- struct{}{}
		var wrong atomic.Int64
		for range 50 {
			go func() {
				checker.Admin(t.Context(), "192.0.2.1", []string{"wrong"})
				wrong.Add(1)
			}()
		}
		synctest.Wait()
		right := make(chan int64)
		go func() {
			_, err := checker.Admin(t.Context(), "198.51.100.1", []string{"right"})
			is.NoErr(err)
			right <- wrong.Load()
		}()
		synctest.Wait()
		<-checker.admin.comparing
		if before := <-right; before > 2 {
			t.Errorf("%d wrong keys were compared before", before)
		}
		synctest.Wait()
	})
}
