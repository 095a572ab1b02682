package auth

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

func TestLimiter_AllowsOnePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		l := newLimiter(2, time.Second)
		for _, test := range []struct{ after, wait time.Duration }{
			{0, 0}, {0, 0}, {0, time.Second},
			{400 * time.Millisecond, 600 * time.Millisecond},
			{600 * time.Millisecond, 0}, {0, time.Second},
			{time.Hour, 0}, {0, 0}, {0, time.Second}, // the burst is the maximum
		} {
			time.Sleep(test.after)
			var wait time.Duration
			if limit, ok := errors.AsType[*LimitError](l.take("a", true)); ok {
				wait = limit.Wait
			}
			is.Equal(wait, test.wait)
		}
	})
}

func TestLimiter_CountsOnlyWrongKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLimiter(2, time.Hour)
	for range 5 {
		is.NoErr(l.take("a", false))
	}
	is.NoErr(l.take("a", true))
	for range 5 {
		is.NoErr(l.take("a", true))
		l.refund("a")
	}
	is.NoErr(l.take("a", true))
	is.True(l.take("a", true) != nil)
	is.True(l.take("a", false) != nil) // the limit holds for right keys too
	l.refund("b")                      // without an entry
	is.NoErr(newLimiter(-1, time.Hour).take("a", true))
	is.NoErr(newLimiter(math.MaxInt, time.Hour).take("a", true))
}

func TestLimiter_LimitsEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		l := newLimiter(1000, 100*time.Millisecond)
		for i := range 3 * maxClientIPs {
			l.take(fmt.Sprint(i), true)
		}
		is.True(len(l.tats) <= maxClientIPs)
		time.Sleep(time.Hour)
		l.take("later", true)
		is.Equal(len(l.tats), 1) // expired entries are evicted first
	})
}

// TestLimiter_StoresNoClientIPs is not parallel: it measures the heap. ClientIP
// may return a header of any length.
func TestLimiter_StoresNoClientIPs(t *testing.T) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	l := newLimiter(1000, 100*time.Millisecond)
	const count, length = 1000, 64 << 10
	before := heap()
	for i := range count {
		l.take(strings.Repeat("x", length)+strconv.Itoa(i), true)
	}
	if grown := heap() - before; grown > count*length/4 {
		t.Errorf("%d client IPs of %d bytes take %d bytes", count, length, grown)
	}
	is.New(t).Equal(len(l.tats), count)
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for ip, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "::ffff:192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0":         "fe80::/64",
		"@":                    "@", // a Unix socket
		"pipe":                 "pipe",
	} {
		is.Equal(Network(ip), want)
	}
}
