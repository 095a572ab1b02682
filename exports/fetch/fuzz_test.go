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

// FuzzOpener_Check checks that Open dials nothing for a URL that Check rejects,
// and public IP addresses only for one that it accepts. No name resolves here, so
// every IP address comes from the URL.
func FuzzOpener_Check(f *testing.F) {
	for _, ip := range specialIPs {
		f.Add(ipURL(ip))
	}
	for _, urls := range [][]string{forbiddenURLs, unparsableURLs, publicURLs} {
		for _, rawURL := range urls {
			f.Add(rawURL)
		}
	}
	c := newClient(f, fetch.Options{MaxAttempts: 1})
	f.Fuzz(func(t *testing.T, rawURL string) {
		u, err := url.Parse(rawURL)
		if err != nil {
			return
		}
		checkErr := c.Check(u)
		if checkErr != nil && !errors.Is(checkErr, exports.ErrForbidden) {
			t.Errorf("Check(%q): %v", rawURL, checkErr)
		}
		file, err := c.Open(t.Context(), u)
		if err == nil {
			file.Body.Close()
			t.Fatalf("Open(%q) succeeds", rawURL)
		}
		if checkErr != nil && !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("Check rejects %q, but Open: %v", rawURL, err)
		}
		for _, dialed := range c.dials() {
			target, err := netip.ParseAddrPort(dialed)
			if err != nil || checkErr != nil || isPrivate(target.Addr()) || target.Port() != 80 && target.Port() != 443 {
				t.Errorf("Open(%q) dials %s", rawURL, dialed)
			}
		}
	})
}

// isPrivate is independent of the SSRF guard: it uses the standard library and a
// copy of the special-purpose registries of IANA.
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

// FuzzFileName checks that no header causes a panic, and that a name in the form
// of RFC 6266, appendix D, is returned unchanged.
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
			t.Errorf("FileName(%q) = %q, want %q", extended, got, name)
		}
		if name == "" || strings.Trim(name, printableASCII) != "" {
			return
		}
		quoted := `attachment; size=1; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		if got := fetch.FileName(quoted); got != name {
			t.Errorf("FileName(%q) = %q, want %q", quoted, got, name)
		}
	})
}

const printableASCII = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

func percentEncoded(text string) string {
	var encoded strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&encoded, "%%%02X", text[i])
	}
	return encoded.String()
}

// FuzzOpener_Redirect checks that a redirect to any URL dials only the origin and
// public IP addresses.
func FuzzOpener_Redirect(f *testing.F) {
	for _, urls := range [][]string{forbiddenURLs, publicURLs} {
		for _, rawURL := range urls {
			f.Add(rawURL)
		}
	}
	for _, ip := range specialIPs {
		f.Add(ipURL(ip))
	}
	for _, location := range []string{
		"/", "//127.0.0.1/", "?x", "#x", "..", "http://private.test/", "http://metadata.test/", "https://mixed.test:443/", "http://public.test:22/", "//public.test", "http://mapped.test",
		"\\\\127.0.0.1\\", "http:127.0.0.1", "http:///127.0.0.1/", "http://public.test@127.0.0.1/", "http://127.0.0.1\t.public.test/", "javascript:x", "http://[::ffff:127.0.0.1]/", "",
	} {
		f.Add(location)
	}
	var location atomic.Value
	_, host := startOrigin(f, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{location.Load().(string)}
		w.WriteHeader(http.StatusFound)
	})
	c := newClient(f, fetch.Options{MaxAttempts: 1, AllowedHosts: []string{host}, Resolver: fakeResolver(map[string][]string{
		"private.test":  {"127.0.0.1 ::1 10.0.0.1"},
		"metadata.test": {"169.254.169.254 fd00:ec2::254"},
		"mixed.test":    {"10.0.0.1 8.8.8.8 64:ff9b::a9fe:a9fe"},
		"public.test":   {"8.8.8.8"},
		"mapped.test":   {"::ffff:127.0.0.1 ::ffff:a9fe:a9fe"},
	})})
	f.Fuzz(func(t *testing.T, target string) {
		location.Store(target)
		file, err := c.Open(t.Context(), &url.URL{Scheme: "http", Host: host, Path: "/"})
		if err == nil {
			file.Body.Close()
			t.Fatalf("Open follows a redirect to %q", target)
		}
		for _, dialed := range c.dials() {
			addr, err := netip.ParseAddrPort(dialed)
			if dialed != host && (err != nil || isPrivate(addr.Addr()) || addr.Port() != 80 && addr.Port() != 443) {
				t.Errorf("a redirect to %q dials %s", target, dialed)
			}
		}
	})
}
