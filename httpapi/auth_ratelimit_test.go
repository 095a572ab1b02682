package httpapi

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestAuthLimiter_AllowsOnePerInterval(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newAuthLimiter(RateLimit{Burst: 2, Interval: time.Second})
	now := time.Now()
	is.Equal(g.allow("a", now), time.Duration(0))
	is.Equal(g.allow("a", now), time.Duration(0))
	is.Equal(g.allow("a", now), time.Second)
	is.Equal(g.allow("a", now.Add(400*time.Millisecond)), 600*time.Millisecond)
	is.Equal(g.allow("a", now.Add(time.Second)), time.Duration(0))
	is.Equal(g.allow("a", now.Add(time.Second)), time.Second)
	is.Equal(g.allow("a", now.Add(time.Hour)), time.Duration(0)) // no more than the burst is saved up
	is.Equal(g.allow("a", now.Add(time.Hour)), time.Duration(0))
	is.Equal(g.allow("a", now.Add(time.Hour)), time.Second)
}

func TestAuthLimiter_LimitsEntries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newAuthLimiter(RateLimit{})
	now := time.Now()
	for i := range 3 * maxClientIPs {
		g.allow(fmt.Sprint(i), now)
	}
	is.True(len(g.tats) <= maxClientIPs)
	g.allow("later", now.Add(time.Hour))
	is.Equal(len(g.tats), 1) // those that are whole again are forgotten first
}

// TestAuthLimiter_StoresNoClientIPs is not parallel: it weighs the heap. A
// host may take an address from a header, where a client can put much.
func TestAuthLimiter_StoresNoClientIPs(t *testing.T) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	g := newAuthLimiter(RateLimit{})
	const count, length = 1000, 64 << 10
	before := heap()
	for i := range count {
		g.allow(strings.Repeat("x", length)+strconv.Itoa(i), time.Now())
	}
	if grown := heap() - before; grown > count*length/4 {
		t.Errorf("%d addresses of %d bytes take %d bytes", count, length, grown)
	}
	if len(g.tats) != count {
		t.Errorf("%d addresses are told apart, want %d", len(g.tats), count)
	}
}

func TestRemoteIP(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:5000":              "192.0.2.1",
		"[::ffff:192.0.2.1]:5000":     "::ffff:192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:5000": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:5000":         "fe80::/64",
		"@":                           "@", // a Unix socket
		"pipe":                        "pipe",
	} {
		if got := remoteIP(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s is taken for %s, want %s", remote, got, want)
		}
	}
}
