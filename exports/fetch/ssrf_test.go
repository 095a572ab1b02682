package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/storage/memory"
)

var specialIPs = strings.Fields(`
	127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255
	192.168.0.1 100.64.0.1 100.100.100.200 100.127.255.255 169.254.169.254
	169.254.170.2 168.63.129.16 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1
	192.88.99.1 192.175.48.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
	240.0.0.1 255.255.255.255

	:: ::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::a9fe:a9fe
	::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe
	100::1 100:0:0:1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1
	2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe::
	2002:c0a8:101:: 2620:4f:8000::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254
	fd20:ce::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 2606:4700:4700::1111%eth0
	2001:4860::5efe:7f00:1 2001:4860:0:0:200:5efe:a9fe:a9fe
	2001:4860::300:5efe:808:808 3ffe::1 3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff`)

var publicIPs = strings.Fields(`
	8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.32.0.1 168.63.129.15
	2606:4700:4700::1111 2001:4860:4860::8888`)

func ipURL(ip string) string {
	if strings.Contains(ip, ":") {
		return "http://[" + strings.Replace(ip, "%", "%25", 1) + "]/"
	}
	return "http://" + ip + "/"
}

func TestSSRFGuard_ControlContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, fetch.Options{})
	for _, ip := range specialIPs {
		err := c.CheckDial(net.JoinHostPort(ip, "80"))
		if !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", ip, err)
		}
		if _, ok := errors.AsType[*exports.ForbiddenError](err); ok {
			t.Errorf("%s: %v has a Reason for clients, which would reveal what a name resolves to", ip, err)
		}
	}
	for _, ip := range publicIPs {
		if err := c.CheckDial(net.JoinHostPort(ip, "443")); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
	for _, malformed := range []string{"", ":", "8.8.8.8", "8.8.8.8:", "8.8.8.8:22", "8.8.8.8:65616",
		"127.0.0.1%x:80", "8.8.8.8%x:80", "[::ffff:8.8.8.8%x]:80", "[::1%lo]:80", "name:80", "[8.8.8.8]:80"} {
		if err := c.CheckDial(malformed); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%q: %v", malformed, err)
		}
	}
}

func TestOpener_OpenResolvedIP(t *testing.T) {
	t.Parallel()
	names := make(map[string][]string)
	public := make(map[string]bool) // by name
	for i, text := range slices.Concat(specialIPs, publicIPs) {
		ip := netip.MustParseAddr(text)
		// DNS records have no zones, and resolvers unmap IPv4-mapped addresses.
		if ip.Zone() == "" && !ip.Is4In6() && (ip.Is4() || hasIPv6()) {
			name := fmt.Sprintf("n%d.example.test", i)
			names[name], public[name] = []string{text}, slices.Contains(publicIPs, text)
		}
	}
	c := newClient(t, fetch.Options{Resolver: fakeResolver(names), MaxAttempts: 1})
	for name, isPublic := range public {
		want, dials := exports.ErrForbidden, 0
		if isPublic {
			want, dials = exports.ErrFailed, 1
		}
		_, err := c.open(t, "http://"+name+"/")
		dialed := c.dials()
		if !errors.Is(err, want) || errors.Is(err, fetch.ErrIntercepted) != isPublic || len(dialed) != dials {
			t.Errorf("%s: dialed %v, %v", names[name], dialed, err)
		}
	}
}

func TestOpener_OpenDNSRebinding(t *testing.T) {
	t.Parallel()
	c := newClient(t, fetch.Options{
		AllowedHosts: []string{"intranet.example.test"},
		MaxAttempts:  2,
		Resolver: fakeResolver(map[string][]string{
			"rebound.example.test":  {"8.8.8.8", "127.0.0.1"},
			"private.example.test":  {"10.0.0.1", "8.8.8.8"},
			"mixed.example.test":    {"8.8.8.8 10.0.0.1 169.254.169.254 1.1.1.1", "10.0.0.1"},
			"intranet.example.test": {"10.0.0.1"},
		}),
	})
	for u, want := range map[string]struct {
		err   error
		dials []string // sorted
	}{
		"http://rebound.example.test/": {exports.ErrForbidden, []string{"8.8.8.8:80"}}, // of the first attempt
		"http://private.example.test/": {exports.ErrForbidden, nil},                    // no second lookup
		// all public IP addresses, and no others
		"http://mixed.example.test/":         {exports.ErrForbidden, []string{"1.1.1.1:80", "8.8.8.8:80"}},
		"http://intranet.example.test:8080/": {fetch.ErrIntercepted, []string{"10.0.0.1:8080", "10.0.0.1:8080"}},
	} {
		_, err := c.open(t, u)
		dials := slices.Sorted(slices.Values(c.dials()))
		if !errors.Is(err, want.err) || !slices.Equal(dials, want.dials) {
			t.Errorf("%s: dialed %v, %v", u, dials, err)
		}
	}
}

// TestOpener_OpenRejectsOwnListener fetches, in requests to a listener, from that
// listener at all IP addresses of this machine, and from another listener.
func TestOpener_OpenRejectsOwnListener(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "content") }
	ownURL, own := startOrigin(t, content)
	otherURL, other := startOrigin(t, content)
	_, port, err := net.SplitHostPort(own)
	is.NoErr(err)
	is.True(port != other)
	ips := []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"}
	interfaces := must(net.InterfaceAddrs())(t)
	for _, a := range interfaces {
		ips = append(ips, a.(*net.IPNet).IP.String())
	}
	c := newClient(t, fetch.Options{MaxAttempts: 1, AllowedHosts: append(ips, "own.example.test", other), Resolver: fakeResolver(map[string][]string{
		"own.example.test": {"127.0.0.1"},
	})})
	for _, listener := range []net.Addr{
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: atoi(t, port)},
		&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: atoi(t, port)},
	} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, listener)
		for _, host := range append(ips, "own.example.test") {
			_, err := c.Open(ctx, parse(t, "http://"+net.JoinHostPort(host, port)+"/"))
			if !errors.Is(err, exports.ErrForbidden) && (hasIPv6() || !strings.Contains(host, ":")) {
				t.Errorf("%s: %v", host, err)
			}
		}
		file := must(c.Open(ctx, parse(t, otherURL)))(t)
		file.Body.Close()
	}
	is.Equal(c.dials(), []string{other}) // kept alive
	for _, ctx := range []context.Context{
		t.Context(),
		context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "@"}),
	} {
		file := must(c.Open(ctx, parse(t, ownURL)))(t)
		file.Body.Close()
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	return must(strconv.Atoi(text))(t)
}

// TestOpener_ErrorsHideNetwork compares what a client learns of a batch.
func TestOpener_ErrorsHideNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{MaxAttempts: 1, Resolver: fakeResolver(map[string][]string{
		"intern.example.test": {"10.1.2.3"},
	})})
	_, private := c.open(t, "http://intern.example.test/")
	is.True(errors.Is(private, exports.ErrForbidden))
	_, missing := c.open(t, "http://nosuch.example.test/")
	is.True(errors.Is(missing, exports.ErrFailed))

	urls := []string{"http://intern.example.test/", "http://nosuch.example.test/"}
	service := newService(t, memory.New().Exports(), urls, exports.Options{Openers: []exports.Opener{c}})
	items := must(service.FindBatch(t.Context(), exports.BatchOf(urls...)))(t)
	_, err := service.OpenBatch(t.Context(), items)
	failed := new(exports.BatchError)
	is.True(errors.As(err, &failed))
	is.Equal(failed.Skipped[0].Reason, failed.Skipped[1].Reason)
}

func hasIPv6() bool {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
