// Package clientip finds the IP address of a client behind proxies.
package clientip

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Finder finds the IP address of a client in a header that a proxy sets. The zero value
// returns the remote address.
type Finder struct {
	header  string         // empty: X-Forwarded-For of proxies
	proxies []netip.Prefix // that may set it; none: everyone may set the header
}

// SetHeader sets the header to read instead of X-Forwarded-For, such as X-Real-IP.
func (f *Finder) SetHeader(name string) error {
	f.header = http.CanonicalHeaderKey(name)
	if name == "" || strings.ContainsAny(name, " ,:;_") {
		return errors.New("must be the name of one header, such as X-Real-IP")
	}
	return nil
}

// SetProxies sets the IP addresses and prefixes of proxies, separated by commas.
func (f *Finder) SetProxies(list string) error {
	for _, proxy := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		prefix, err := netip.ParsePrefix(proxy)
		if ip, ipErr := netip.ParseAddr(proxy); ipErr == nil {
			prefix, err = ip.Unmap().Prefix(ip.Unmap().BitLen())
		}
		if err != nil || prefix.Addr().Is4In6() {
			return fmt.Errorf("must be IPv4 or IPv6 addresses or prefixes such as 10.0.0.0/8, not %q", proxy)
		}
		if prefix.Bits() < 7 { // that of fc00::/7; shorter ones contain public addresses
			return fmt.Errorf("with %s, clients could choose their IP", prefix)
		}
		f.proxies = append(f.proxies, prefix)
	}
	return nil
}

// Find returns the IP address of the client that has sent a request, or the remote address
// if the header does not count.
func (f *Finder) Find(r *http.Request) string {
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	peer, _ := parseIP(remote)
	if !f.trusts(peer) && (f.header == "" || len(f.proxies) > 0) {
		return remote
	}
	// Each proxy appends the address of its peer. Entries before that of an untrusted
	// peer are what the client sent.
	list := strings.Join(r.Header.Values(cmp.Or(f.header, "X-Forwarded-For")), ",")
	client := remote
	for _, entry := range slices.Backward(strings.Split(list, ",")) {
		ip, err := parseIP(entry)
		if err != nil {
			break
		}
		client = ip.String()
		if !f.trusts(ip) {
			break
		}
	}
	return client
}

func (f *Finder) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(f.proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func parseIP(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil { // some proxies add the port
		text = host
	}
	ip, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return ip.Unmap().WithZone(""), err
}
