package fetch_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
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
	c := newClient(f, fetch.Options{MaxAttempts: 1})
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

// isPrivate is a second opinion, by the standard library and a list of the
// special purpose registries of IANA.
func isPrivate(ip netip.Addr) bool {
	if ip.Zone() != "" || ip.Is4In6() || !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return true
	}
	for prefix := range strings.FieldsSeq(`0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24
		203.0.113.0/24 240.0.0.0/4 ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3ffe::/16 3fff::/20 5f00::/16 fec0::/10`) {
		if netip.MustParsePrefix(prefix).Contains(ip) {
			return true
		}
	}
	return false
}

// FuzzFileName reads any header without a panic, and a name back that was
// written as RFC 6266, appendix D, advises.
func FuzzFileName(f *testing.F) {
	for _, header := range []string{
		`attachment; filename="a.pdf"; filename*=UTF-8''%E2%82%AC.pdf`, "attachment; filename=my plan.pdf", `filename="`, `attachment; filename*=x'y'%zz`, "attachment; filename=\"a\\",
		`attachment; filename*0="a"; filename*1*=UTF-8''%41`, `attachment; filename="a"; filename="b"`, "\xff; filename=\xff", "attachment; filename*=UTF-8''%ff", `; filename=; filename=x`,
	} {
		f.Add(header, "plan.pdf")
	}
	for _, name := range []string{"R\u00e9sum\u00e9 \"1\".pdf", `..\..\boot.ini`, "../../etc/passwd", "a;b=c,d", "50%25", "\U0001f986", "\x00\r\n", "'", "\xff"} {
		f.Add("", name)
	}
	f.Fuzz(func(t *testing.T, header, name string) {
		fetch.FileName(header)
		extended := "attachment; filename=\"x\"; filename*=UTF-8''" + percentEncoded(name)
		if got := fetch.FileName(extended); got != name {
			t.Errorf("%q is read as %q, want %q", extended, got, name)
		}
		if name == "" || strings.Trim(name, visible) != "" {
			return
		}
		quoted := `attachment; size=1; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		if got := fetch.FileName(quoted); got != name {
			t.Errorf("%q is read as %q, want %q", quoted, got, name)
		}
	})
}

const visible = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

func percentEncoded(text string) string {
	var encoded strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&encoded, "%%%02X", text[i])
	}
	return encoded.String()
}

// FuzzRedirect lets an origin redirect to wherever it likes: no address is
// dialled but its own and public ones.
func FuzzRedirect(f *testing.F) {
	for _, addresses := range [][]string{refusedSpellings, acceptedSpellings} {
		for _, address := range addresses {
			f.Add(address)
		}
	}
	for _, address := range refusedAddresses {
		f.Add(literal(address))
	}
	for _, location := range []string{
		"/", "//127.0.0.1/", "?x", "#x", "..", "http://private.test/", "http://metadata.test/", "https://mixed.test:443/", "http://public.test:22/", "//public.test", "http://mapped.test",
		"\\\\127.0.0.1\\", "http:127.0.0.1", "http:///127.0.0.1/", "http://public.test@127.0.0.1/", "http://127.0.0.1\t.public.test/", "javascript:x", "http://[::ffff:127.0.0.1]/", "",
	} {
		f.Add(location)
	}
	var location atomic.Value
	_, host := serve(f, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{location.Load().(string)}
		w.WriteHeader(http.StatusFound)
	})
	c := newClient(f, fetch.Options{MaxAttempts: 1, AllowedHosts: []string{host}, Resolver: resolver(map[string][]string{
		"private.test":  {"127.0.0.1 ::1 10.0.0.1"},
		"metadata.test": {"169.254.169.254 fd00:ec2::254"},
		"mixed.test":    {"10.0.0.1 8.8.8.8 64:ff9b::a9fe:a9fe"},
		"public.test":   {"8.8.8.8"},
		"mapped.test":   {"::ffff:127.0.0.1 ::ffff:a9fe:a9fe"},
	})})
	f.Fuzz(func(t *testing.T, to string) {
		location.Store(to)
		file, err := c.Open(t.Context(), &url.URL{Scheme: "http", Host: host, Path: "/"})
		if err == nil {
			file.Body.Close()
			t.Fatalf("a redirect to %q was opened", to)
		}
		for _, dialled := range c.dials() {
			target, err := netip.ParseAddrPort(dialled)
			if dialled != host && (err != nil || isPrivate(target.Addr()) || target.Port() != 80 && target.Port() != 443) {
				t.Errorf("a redirect to %q has dialled %s", to, dialled)
			}
		}
	})
}
