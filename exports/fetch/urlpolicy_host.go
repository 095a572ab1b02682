package fetch

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// pattern is an entry of [Options.AllowedHosts].
type pattern struct {
	host  string // canonical
	below bool   // the names below host, and not host itself
	port  string // any if empty
}

func parsePattern(entry string) (p pattern, err error) {
	entry, p.below = strings.CutPrefix(entry, "*.")
	if ip, err := netip.ParseAddr(entry); err == nil && ip.Is6() {
		entry = "[" + entry + "]"
	}
	u := url.URL{Host: entry}
	if p.host, err = canonicalHost(u.Hostname()); err != nil {
		return pattern{}, err
	}
	if u.Port() != "" {
		if p.port, err = canonicalPort(u.Port(), ""); err != nil {
			return pattern{}, err
		}
	}
	if _, err := netip.ParseAddr(p.host); err == nil && p.below {
		return pattern{}, errors.New("there is no name below an address")
	}
	return p, nil
}

func (p pattern) matches(host, port string) bool {
	if p.port != "" && p.port != port {
		return false
	}
	if p.below {
		return strings.HasSuffix(host, "."+p.host)
	}
	return host == p.host
}

// canonicalHost returns a host as it is compared and dialled: an IP address in
// its standard form, or a name of lower-case ASCII without a dot at the end.
// Whatever is neither is refused, and so is a name that some resolver takes
// for an IPv4 address.
func canonicalHost(host string) (string, error) {
	if !isASCII(host) {
		mapped, err := idna.Lookup.ToASCII(host) // as net/http does
		if err != nil {
			return "", errors.New("the host is not a name")
		}
		host = mapped
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", errors.New("the host has a zone")
		}
		return ip.String(), nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || !consistsOf(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") {
			return "", errors.New("the host is not a name")
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "", errors.New("the host is an address in an unusual form")
	}
	return host, nil
}

// isNumber reports whether a host that ends in this label is an IPv4 address
// for inet_aton and browsers, as in 127.1 or 0x7f000001.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return consistsOf(hex, "0123456789abcdef")
	}
	return consistsOf(label, "0123456789")
}

func consistsOf(s, chars string) bool {
	return strings.Trim(s, chars) == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// canonicalPort returns a port in decimal, the scheme's if there is none.
func canonicalPort(port, scheme string) (string, error) {
	if port == "" {
		return defaultPorts[scheme], nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("there is no such port")
	}
	return strconv.FormatUint(n, 10), nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// hostOfURL joins a canonical host and port, leaving out the scheme's own.
func hostOfURL(host, port, scheme string) string {
	if port != defaultPorts[scheme] {
		return net.JoinHostPort(host, port)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
