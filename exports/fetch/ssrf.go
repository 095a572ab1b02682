package fetch

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"

	"example.com/canvasback/exports"
)

// azurePlatform answers virtual machines of Azure with what is theirs alone,
// at an address that is public by number.
var azurePlatform = netip.MustParsePrefix("168.63.129.16/32")

// formerTestbed, the 6bone, was given back to IANA in 2006 and has not been
// assigned since (RFC 3701, section 2): whoever routes it does so in private.
var formerTestbed = netip.MustParsePrefix("3ffe::/16")

// guard refuses addresses that are not on the public internet.
type guard struct {
	registry *ssrf.Guardian // the special purpose registries of IANA
}

// newGuard is the only place that configures the registry: each of its options
// replaces what another set.
func newGuard(ports []uint16) guard {
	return guard{ssrf.New(
		ssrf.WithPorts(ports...),
		ssrf.WithDeniedV4Prefixes(azurePlatform),
		ssrf.WithDeniedV6Prefixes(formerTestbed),
	)}
}

// control is the ControlContext of a [net.Dialer], which calls it between
// resolving a name and connecting, for each address that is tried.
func (g guard) control(_ context.Context, network, address string, conn syscall.RawConn) error {
	err := g.registry.Safe(network, address, conn)
	if err == nil {
		var target netip.AddrPort
		if target, err = netip.ParseAddrPort(address); err == nil {
			err = g.judge(target.Addr())
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", exports.ErrForbidden, err)
	}
	return nil
}

// judge refuses an address whatever the port. One with a zone is in no prefix
// and so refused; an IPv4 address mapped into IPv6 is refused as such.
func (g guard) judge(ip netip.Addr) error {
	if err := g.registry.SafeAddr(ip); err != nil {
		return err
	}
	if ip.Is6() && isISATAP(ip) {
		return fmt.Errorf("%s is a tunnel to an IPv4 address", ip)
	}
	return nil
}

// isISATAP reports whether the interface identifier carries an IPv4 address as
// RFC 5214, section 6.1, has it. No public server lies behind such a tunnel.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	const universalOrGroup = 0x03
	return b[8]&^universalOrGroup == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
