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

type hostPattern struct {
	host       string // canonical
	subdomains bool   // match the names below host instead of host
	port       string // any if empty
}

func parseHostPattern(entry string) (p hostPattern, err error) {
	entry, p.subdomains = strings.CutPrefix(entry, "*.")
	if ip, err := netip.ParseAddr(entry); err == nil && ip.Is6() {
		entry = "[" + entry + "]"
	}
	u := url.URL{Host: entry}
	if p.host, err = canonicalHost(u.Hostname()); err != nil {
		return hostPattern{}, err
	}
	if u.Port() != "" {
		if p.port, err = canonicalPort(u.Port(), ""); err != nil {
			return hostPattern{}, err
		}
	}
	if _, err := netip.ParseAddr(p.host); err == nil && p.subdomains {
		return hostPattern{}, errors.New("an IP address has no subdomains")
	}
	return p, nil
}

func (p hostPattern) matches(host, port string) bool {
	if p.port != "" && p.port != port {
		return false
	}
	if p.subdomains {
		return strings.HasSuffix(host, "."+p.host)
	}
	return host == p.host
}

// canonicalHost returns host in the form that is compared and dialed: an IP
// address in standard form, or an ASCII name in lower case without a trailing
// dot. It rejects every other host, including names that inet_aton and browsers
// take for an IPv4 address.
func canonicalHost(host string) (string, error) {
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		mapped, err := idna.Lookup.ToASCII(host) // as net/http does
		if err != nil {
			return "", errors.New("the host is not a valid name")
		}
		host = mapped
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", errors.New("the host has an IPv6 zone")
		}
		return ip.String(), nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || !onlyChars(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") {
			return "", errors.New("the host is not a valid name")
		}
	}
	if isIPv4Label(labels[len(labels)-1]) {
		return "", errors.New("the host is an IPv4 address in a nonstandard form")
	}
	return host, nil
}

// isIPv4Label reports whether inet_aton and browsers take a host with this last
// label for an IPv4 address, as in 127.1 or 0x7f000001.
func isIPv4Label(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return onlyChars(hex, "0123456789abcdef")
	}
	return onlyChars(label, "0123456789")
}

func onlyChars(s, chars string) bool {
	return strings.Trim(s, chars) == ""
}

// canonicalPort returns port in decimal, or the default port of the scheme if
// port is empty.
func canonicalPort(port, scheme string) (string, error) {
	if port == "" {
		return defaultPorts[scheme], nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("the port is invalid")
	}
	return strconv.FormatUint(n, 10), nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// joinHostPort joins a canonical host and port for a URL. It omits the default
// port of the scheme.
func joinHostPort(host, port, scheme string) string {
	if port != defaultPorts[scheme] {
		return net.JoinHostPort(host, port)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
