package auth

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestLimiter_AllowsOnePerInterval(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLimiter(2, time.Second)
	now := time.Now()
	is.Equal(l.allow("a", now, true), time.Duration(0))
	is.Equal(l.allow("a", now, true), time.Duration(0))
	is.Equal(l.allow("a", now, true), time.Second)
	is.Equal(l.allow("a", now.Add(400*time.Millisecond), true), 600*time.Millisecond)
	is.Equal(l.allow("a", now.Add(time.Second), true), time.Duration(0))
	is.Equal(l.allow("a", now.Add(time.Second), true), time.Second)
	is.Equal(l.allow("a", now.Add(time.Hour), true), time.Duration(0)) // the burst is the maximum
	is.Equal(l.allow("a", now.Add(time.Hour), true), time.Duration(0))
	is.Equal(l.allow("a", now.Add(time.Hour), true), time.Second)
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
}

func TestLimiter_LimitsEntries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLimiter(1000, 100*time.Millisecond)
	now := time.Now()
	for i := range 3 * maxClientIPs {
		l.allow(fmt.Sprint(i), now, true)
	}
	is.True(len(l.tats) <= maxClientIPs)
	l.allow("later", now.Add(time.Hour), true)
	is.Equal(len(l.tats), 1) // expired entries are evicted first
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
		l.allow(strings.Repeat("x", length)+strconv.Itoa(i), time.Now(), true)
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
