package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"example.com/canvasback/exports"
)

type urlPolicy struct {
	allowed     []hostPattern
	onlyAllowed bool
	ports       []uint16
	ssrf        ssrfGuard
}

func newURLPolicy(o *Options) (urlPolicy, error) {
	p := urlPolicy{onlyAllowed: o.OnlyAllowed, ports: slices.Clone(o.Ports)}
	if len(p.ports) == 0 {
		p.ports = []uint16{80, 443}
	}
	p.ssrf = ssrfGuard{ssrf.New( // in one place: each option overwrites the effect of earlier ones
		ssrf.WithPorts(p.ports...), ssrf.WithDeniedV4Prefixes(azureWireServer), ssrf.WithDeniedV6Prefixes(sixBone),
	)}
	for _, entry := range o.AllowedHosts {
		pattern, err := parseHostPattern(entry)
		if err != nil {
			return urlPolicy{}, fmt.Errorf("fetch: invalid AllowedHosts entry %q: %w", entry, err)
		}
		p.allowed = append(p.allowed, pattern)
	}
	return p, nil
}

// checkURL returns the URL to request for u: with the canonical host that was
// checked, and without a fragment. The error is an [exports.ForbiddenError].
func (p *urlPolicy) checkURL(u *url.URL) (*url.URL, error) {
	checked, err := p.canonicalURL(u)
	if err != nil {
		return nil, &exports.ForbiddenError{Reason: err.Error()}
	}
	return checked, nil
}

func (p *urlPolicy) canonicalURL(u *url.URL) (*url.URL, error) {
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme != "http" && scheme != "https":
		return nil, errors.New("the scheme is not http or https")
	case u.Opaque != "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("the URL has user info")
	case strings.ContainsFunc(u.Path, isAmbiguous), strings.ContainsFunc(u.RawQuery, isAmbiguous):
		return nil, errors.New("the URL has a control character or backslash")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := canonicalPort(u.Port(), scheme)
	if err != nil {
		return nil, err
	}
	if !p.isAllowed(host, port) {
		if err := p.checkPublic(host, port); err != nil {
			return nil, err
		}
	}
	return &url.URL{
		Scheme:     scheme,
		Host:       strings.TrimSuffix(net.JoinHostPort(host, port), ":"+defaultPorts[scheme]),
		Path:       u.Path,
		RawPath:    notInPath.ReplaceAllStringFunc(u.RawPath, url.PathEscape), // otherwise ignored, and with it each %2F
		ForceQuery: u.ForceQuery,
		RawQuery:   notInQuery.ReplaceAllStringFunc(u.RawQuery, url.PathEscape),
	}, nil
}

// What must be escaped in a path, and what some servers reject in a query.
var (
	notInPath  = regexp.MustCompile(`[^!$-;=@-\[\]_a-z~]`)
	notInQuery = regexp.MustCompile(`[^!#-;=?-~]`)
)

// isAmbiguous reports whether URL parsers disagree about r, escaped or not.
func isAmbiguous(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }

func (p *urlPolicy) isAllowed(host, port string) bool {
	return slices.ContainsFunc(p.allowed, func(pattern hostPattern) bool {
		return pattern.matches(host, port)
	})
}

// checkPublic rejects a canonical host and port that need an entry in
// AllowedHosts. The SSRF guard checks what a name resolves to.
func (p *urlPolicy) checkPublic(host, port string) error {
	if p.onlyAllowed {
		return errors.New("the host is not allowed")
	}
	if !slices.ContainsFunc(p.ports, func(n uint16) bool { return port == strconv.Itoa(int(n)) }) {
		return errors.New("the port is not allowed")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return p.ssrf.checkIP(ip)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, section 6.3
		return errors.New("the host is localhost")
	}
	return nil
}

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
	if p.port, err = canonicalPort(u.Port(), ""); err != nil { // "" for none
		return hostPattern{}, err
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
	// As in 127.1 or 0x7f000001, which inet_aton and browsers take for an IPv4 address.
	last := labels[len(labels)-1]
	if hex, ok := strings.CutPrefix(last, "0x"); ok && onlyChars(hex, "0123456789abcdef") || onlyChars(last, "0123456789") {
		return "", errors.New("the host is an IPv4 address in a nonstandard form")
	}
	return host, nil
}

func onlyChars(s, chars string) bool { return strings.Trim(s, chars) == "" }

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
