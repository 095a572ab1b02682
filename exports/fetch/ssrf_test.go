package fetch_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

var refusedAddresses = strings.Fields(`
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

var publicAddresses = strings.Fields(`
	8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.32.0.1 168.63.129.15
	2606:4700:4700::1111 2001:4860:4860::8888`)

// literal is an address as it stands in a URL.
func literal(address string) string {
	if strings.Contains(address, ":") {
		return "http://[" + strings.Replace(address, "%", "%25", 1) + "]/"
	}
	return "http://" + address + "/"
}

func TestGuard_addressesAboutToBeDialled(t *testing.T) {
	t.Parallel()
	c := newClient(t, fetch.Options{})
	for _, address := range refusedAddresses {
		if err := c.CheckDial(net.JoinHostPort(address, "80")); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range publicAddresses {
		if err := c.CheckDial(net.JoinHostPort(address, "443")); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, junk := range []string{"", ":", "8.8.8.8", "8.8.8.8:", "8.8.8.8:22", "8.8.8.8:65616",
		"127.0.0.1%x:80", "8.8.8.8%x:80", "[::ffff:8.8.8.8%x]:80", "[::1%lo]:80", "name:80", "[8.8.8.8]:80"} {
		if err := c.CheckDial(junk); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%q: %v", junk, err)
		}
	}
}

func TestCheck_literalAddresses(t *testing.T) {
	t.Parallel()
	c := newClient(t, fetch.Options{})
	for _, address := range refusedAddresses {
		if err := c.Check(parse(t, literal(address))); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := c.open(t, literal(address)); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("opening %s: %v", address, err)
		}
	}
	if dialled := c.dials(); dialled != nil {
		t.Errorf("dialled %v", dialled)
	}
	for _, address := range publicAddresses {
		if err := c.Check(parse(t, literal(address))); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOpen_namesThatResolveToAddresses(t *testing.T) {
	t.Parallel()
	names := make(map[string][]string)
	named := func(address string) string {
		name := strings.NewReplacer(".", "-", ":", "-").Replace(address) + "x.example.test"
		names[strings.TrimLeft(name, "-")] = []string{address}
		return "http://" + strings.TrimLeft(name, "-") + "/"
	}
	var refused, public []string
	for _, address := range refusedAddresses {
		ip := netip.MustParseAddr(address)
		// A name cannot have a zone, and a resolver unmaps what is mapped.
		if ip.Zone() == "" && !ip.Is4In6() && (ip.Is4() || hasIPv6()) {
			refused = append(refused, named(address))
		}
	}
	for _, address := range publicAddresses {
		if netip.MustParseAddr(address).Is4() || hasIPv6() {
			public = append(public, named(address))
		}
	}
	c := newClient(t, fetch.Options{Resolver: resolver(names), MaxAttempts: 1})
	for _, address := range refused {
		if _, err := c.open(t, address); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
		if dialled := c.dials(); dialled != nil {
			t.Errorf("%s: dialled %v", address, dialled)
		}
	}
	for _, address := range public {
		if _, err := c.open(t, address); !errors.Is(err, fetch.ErrIntercepted) || !errors.Is(err, exports.ErrFailed) {
			t.Errorf("%s: %v", address, err)
		}
		if dialled := c.dials(); len(dialled) != 1 {
			t.Errorf("%s: dialled %v", address, dialled)
		}
	}
}

func TestOpen_namesWithMixedAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{Resolver: resolver(map[string][]string{
		"mixed.example.test": {"8.8.8.8 10.0.0.1 169.254.169.254 1.1.1.1"},
	})})
	_, err := c.open(t, "http://mixed.example.test/")
	is.True(err != nil)
	dialled := c.dials()
	is.True(slices.Contains(dialled, "8.8.8.8:80"))          // the public ones are tried
	is.True(slices.Contains(dialled, "1.1.1.1:80"))          // both of them
	is.True(!slices.Contains(dialled, "10.0.0.1:80"))        // and no other
	is.True(!slices.Contains(dialled, "169.254.169.254:80")) // and no other
}

func TestOpen_namesThatAreRebound(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{Resolver: resolver(map[string][]string{
		"rebound.example.test": {"8.8.8.8", "127.0.0.1"},
	})})
	_, err := c.open(t, "http://rebound.example.test/")
	is.True(errors.Is(err, exports.ErrForbidden)) // the second try meets the second answer
	is.Equal(c.dials(), []string{"8.8.8.8:80"})
}

func TestOpen_refusalsAreFinal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{Resolver: resolver(map[string][]string{
		"rebound.example.test": {"10.0.0.1", "8.8.8.8"},
	})})
	_, err := c.open(t, "http://rebound.example.test/")
	is.True(errors.Is(err, exports.ErrForbidden))
	is.Equal(len(c.dials()), 0) // nobody looked again
}

func hasIPv6() bool {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
