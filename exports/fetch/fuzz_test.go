package fetch_test

import (
	"errors"
	"net/netip"
	"net/url"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// FuzzCheck holds that what Check refuses is not dialled, and that what it
// accepts dials no private address. No name resolves here, so all that is
// dialled comes from the address itself.
func FuzzCheck(f *testing.F) {
	for _, address := range refusedAddresses {
		f.Add(literal(address))
	}
	for _, addresses := range [][]string{refusedSpellings, unparsable, acceptedSpellings} {
		for _, address := range addresses {
			f.Add(address)
		}
	}
	c := newClient(f, fetch.Options{Tries: 1})
	f.Fuzz(func(t *testing.T, address string) {
		u, err := url.Parse(address)
		if err != nil {
			return
		}
		refused := c.Check(u)
		if refused != nil && !errors.Is(refused, exports.ErrForbidden) {
			t.Errorf("%q: %v", address, refused)
		}
		file, err := c.Open(t.Context(), u)
		if err == nil {
			file.Body.Close()
			t.Fatalf("%q was opened", address)
		}
		if refused != nil && !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%q: refused by Check, and then %v", address, err)
		}
		for _, dialled := range c.dials() {
			target, err := netip.ParseAddrPort(dialled)
			if err != nil || refused != nil || isPrivate(target.Addr()) || target.Port() != 80 && target.Port() != 443 {
				t.Errorf("%q: dialled %s", address, dialled)
			}
		}
	})
}

// isPrivate is a second opinion, by the standard library.
func isPrivate(ip netip.Addr) bool {
	ip = ip.Unmap()
	return !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.Zone() != ""
}

func FuzzFileName(f *testing.F) {
	f.Add(`attachment; filename="a.pdf"; filename*=UTF-8''%E2%82%AC.pdf`)
	f.Add("attachment; filename=my plan.pdf")
	f.Fuzz(func(_ *testing.T, header string) { fetch.FileName(header) })
}
