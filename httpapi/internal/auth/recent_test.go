package auth

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// TestChecker_RecentAdminPasses checks which admin keys pass the limit of a client IP.
func TestChecker_RecentAdminPasses(t *testing.T) {
	t.Parallel()
	const long, other, short, hashed = "a key of 16 char", "another key of more", "15 characters..", "is known by its hash"
	hash := hashKey(t, hashed)
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		c, err := New(Options{AdminKeys: []string{long, other, short, hash}, Burst: 1, Interval: 24 * time.Hour, Timeout: time.Minute})
		is.NoErr(err)
		limited := func(ip, key string) bool {
			_, err := c.Admin(t.Context(), ip, []string{key})
			limit := new(LimitError)
			return errors.As(err, &limit)
		}
		for _, key := range []string{long, short, hashed} {
			is.True(!limited("a", key))
		}
		is.True(!limited("a", "wrong"))
		is.True(limited("a", "wrong"))
		is.True(!limited("a", long))
		is.True(limited("a", other))  // was not used
		is.True(limited("a", short))  // could be guessed
		is.True(limited("a", hashed)) // would need a comparison
		is.True(limited("a", "a wrong key of many characters"))
		is.True(!limited("b", "wrong"))
		is.True(limited("b", long)) // another IP
		time.Sleep(time.Hour - time.Second)
		is.True(!limited("a", long)) // counts from the last use
		time.Sleep(time.Hour - time.Second)
		is.True(!limited("a", long))
		time.Sleep(time.Hour)
		is.True(limited("a", long))
	})
}

func TestRecentUses_LimitsEntries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r := recentUses{ends: make(expiries[recentUse])}
	for i := range 3 * maxClientIPs {
		r.add(recentUse{strconv.Itoa(i), nil})
	}
	is.True(len(r.ends) <= maxClientIPs)
}

// TestChecker_AdminLimitHoldsForNetworks: who has an IPv6 address has 2^64 of them.
func TestChecker_AdminLimitHoldsForNetworks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, err := New(Options{AdminKeys: []string{"right"}, Burst: 1, Interval: time.Hour})
	is.NoErr(err)
	limit := new(LimitError)
	_, err = c.Admin(t.Context(), "2001:db8::1", []string{"wrong"})
	is.True(!errors.As(err, &limit))
	_, err = c.Admin(t.Context(), "2001:db8::2", []string{"wrong"})
	is.True(errors.As(err, &limit))
	_, err = c.Admin(t.Context(), "2001:db8:0:1::1", []string{"right"})
	is.NoErr(err)
}
