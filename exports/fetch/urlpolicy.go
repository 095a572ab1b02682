package fetch

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// policy says which addresses may be requested.
type policy struct {
	allowed []pattern
	only    bool
	ports   []uint16
	guard   guard
}

func newPolicy(o *Options) (policy, error) {
	p := policy{only: o.OnlyAllowed, ports: slices.Clone(o.Ports)}
	if len(p.ports) == 0 {
		p.ports = []uint16{80, 443}
	}
	p.guard = newGuard(p.ports)
	for _, entry := range o.AllowedHosts {
		allowed, err := parsePattern(entry)
		if err != nil {
			return policy{}, fmt.Errorf("fetch: invalid AllowedHosts entry %q: %w", entry, err)
		}
		p.allowed = append(p.allowed, allowed)
	}
	return p, nil
}

// judge returns an address as it is to be requested: the host in the form in
// which it was compared, and nothing that is not sent. The error is an
// [exports.ForbiddenError].
func (p *policy) judge(address *url.URL) (*url.URL, error) {
	scheme := strings.ToLower(address.Scheme)
	switch {
	case scheme != "http" && scheme != "https":
		return nil, forbidden("the scheme is not http or https")
	case address.Opaque != "":
		return nil, forbidden("the address has no host")
	case address.User != nil:
		return nil, forbidden("the address carries a user or password")
	case strings.ContainsFunc(address.Path, ambiguous), strings.ContainsFunc(address.RawQuery, ambiguous):
		return nil, forbidden("the address has a control character or backslash")
	}
	host, err := canonicalHost(address.Hostname())
	if err != nil {
		return nil, forbidden(err.Error())
	}
	port, err := canonicalPort(address.Port(), scheme)
	if err != nil {
		return nil, forbidden(err.Error())
	}
	if !p.allows(host, port) {
		if err := p.public(host, port); err != nil {
			return nil, err
		}
	}
	return &url.URL{
		Scheme:     scheme,
		Host:       hostOfURL(host, port, scheme),
		Path:       address.Path,
		RawPath:    address.RawPath,
		ForceQuery: address.ForceQuery,
		RawQuery:   strings.ReplaceAll(address.RawQuery, " ", "%20"),
	}, nil
}

// ambiguous is for characters that parsers disagree about, escaped or not.
func ambiguous(r rune) bool {
	return r < ' ' || r == 0x7f || r == '\\'
}

// allows reports whether a canonical host is allowed by name on a port.
func (p *policy) allows(host, port string) bool {
	return slices.ContainsFunc(p.allowed, func(allowed pattern) bool {
		return allowed.matches(host, port)
	})
}

// public refuses a canonical host that can be known not to be public, or that
// may not be asked on a port. Names are judged again when they are dialled.
func (p *policy) public(host, port string) error {
	if p.only {
		return forbidden("the host is not among the allowed")
	}
	if !slices.ContainsFunc(p.ports, func(n uint16) bool { return port == strconv.Itoa(int(n)) }) {
		return forbidden("the port is not among the allowed")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if err := p.guard.judge(ip); err != nil {
			return forbidden(err.Error())
		}
		return nil
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, section 6.3
		return forbidden("the host is this machine")
	}
	return nil
}
