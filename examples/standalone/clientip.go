package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientIPs finds the IP address of a client in a header that a proxy sets.
type clientIPs struct {
	header  string         // empty: X-Forwarded-For of trusted proxies
	proxies []netip.Prefix // that may set it; none: everyone
}

// headerCharacters are those of common header names.
const headerCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// parseClientIPs parses CLIENT_IP_HEADER and TRUSTED_PROXIES.
func parseClientIPs(header string, proxies []string) (c clientIPs, err error) {
	if strings.ContainsFunc(header, func(r rune) bool { return !strings.ContainsRune(headerCharacters, r) }) {
		return c, fmt.Errorf("CLIENT_IP_HEADER must be the name of one header, such as X-Real-IP")
	}
	c.header = header
	for _, proxy := range proxies {
		prefix, err := netip.ParsePrefix(proxy)
		if err != nil {
			var ip netip.Addr
			if ip, err = netip.ParseAddr(proxy); err == nil {
				prefix, err = ip.Unmap().Prefix(ip.Unmap().BitLen())
			}
		}
		if err != nil {
			return c, fmt.Errorf("TRUSTED_PROXIES must be IP addresses or prefixes such as 10.0.0.0/8, not %q", proxy)
		}
		c.proxies = append(c.proxies, prefix)
	}
	return c, nil
}

// function returns the function for httpapi, or nil for the remote address.
func (c clientIPs) function() func(*http.Request) string {
	if c.header == "" && len(c.proxies) == 0 {
		return nil
	}
	return c.find
}

// find returns the remote address if the header does not count.
func (c clientIPs) find(r *http.Request) string {
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	peer, err := parseIP(remote)
	if len(c.proxies) > 0 && (err != nil || !c.trusts(peer)) {
		return remote
	}
	if c.header != "" {
		if values := r.Header.Values(c.header); len(values) == 1 {
			if ip, err := parseIP(values[0]); err == nil {
				return ip.String()
			}
		}
		return remote
	}
	// Each proxy appends the address of its peer. Entries before that of an untrusted
	// peer are what the client sent.
	list := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	client := remote
	for _, entry := range slices.Backward(list) {
		ip, err := parseIP(entry)
		if err != nil {
			break
		}
		client = ip.String()
		if !c.trusts(ip) {
			break
		}
	}
	return client
}

func (c clientIPs) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func parseIP(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(strings.TrimSpace(text))
	return ip.Unmap().WithZone(""), err
}
