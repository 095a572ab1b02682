package fetch

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"

	"example.com/canvasback/exports"
)

// azureWireServer is a public IP address at which an Azure virtual machine
// reaches its platform and its own secrets.
var azureWireServer = netip.MustParsePrefix("168.63.129.16/32")

// sixBone was returned to IANA in 2006 and is unassigned since (RFC 3701, section
// 2), so any route to it is private.
var sixBone = netip.MustParsePrefix("3ffe::/16")

// ssrfGuard rejects IP addresses that are not on the public internet.
type ssrfGuard struct {
	registry *ssrf.Guardian // the special-purpose registries of IANA
}

// controlContext is the ControlContext of a [net.Dialer], which calls it for
// each IP address after DNS resolution and before the connection.
func (g ssrfGuard) controlContext(ctx context.Context, network, address string, conn syscall.RawConn) error {
	if err := rejectOwnListener(ctx, network, address, conn); err != nil {
		return err
	}
	target, err := netip.ParseAddrPort(address)
	if err == nil {
		err = cmp.Or(g.registry.Safe(network, address, conn), g.checkIP(target.Addr()))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", exports.ErrForbidden, err)
	}
	return nil
}

// rejectOwnListener is the ControlContext of a [net.Dialer] for allowed hosts. It
// rejects the listener of the request that ctx belongs to, at any IP address of this
// machine.
func rejectOwnListener(ctx context.Context, _, address string, _ syscall.RawConn) error {
	local, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil // not in a request
	}
	listener, _ := netip.ParseAddrPort(local.String()) // port 0 for a Unix socket
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", exports.ErrForbidden, err)
	}
	if target.Port() == listener.Port() && isOwnIP(target.Addr()) {
		return fmt.Errorf("%w: %s is this server", exports.ErrForbidden, address)
	}
	return nil
}

func isOwnIP(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip.AsSlice())
	})
}

// checkIP rejects an IP address on any port. It rejects zones, which match no
// prefix, and IPv4-mapped IPv6 addresses.
func (g ssrfGuard) checkIP(ip netip.Addr) error {
	if err := g.registry.SafeAddr(ip); err != nil {
		return err
	}
	// The interface identifier of ISATAP contains an IPv4 address (RFC 5214, section 6.1).
	const universalOrGroup = 0x03
	if b := ip.As16(); ip.Is6() && b[8]&^universalOrGroup == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return fmt.Errorf("%s is an ISATAP address", ip)
	}
	return nil
}
