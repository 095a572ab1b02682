package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	p.ssrf = newSSRFGuard(p.ports)
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
		Host:       joinHostPort(host, port, scheme),
		Path:       u.Path,
		RawPath:    u.RawPath,
		ForceQuery: u.ForceQuery,
		RawQuery:   strings.ReplaceAll(u.RawQuery, " ", "%20"),
	}, nil
}

// isAmbiguous reports whether URL parsers disagree about r, escaped or not.
func isAmbiguous(r rune) bool {
	return r < ' ' || r == 0x7f || r == '\\'
}

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
