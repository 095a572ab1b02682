package fetch_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// forbiddenURLs parse as URLs and stand for a forbidden target in some parser or
// resolver.
var forbiddenURLs = []string{
	// IPv4 as inet_aton reads it
	"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/",
	"http://127.1/", "http://00000000177.1/", "http://0/", "http://0x/", "http://127.0.0.0x1/",
	"http://127.0.0.01/", "http://134744072/", "http://8.8.8.8.8/", "http://256.256.256.256/",
	// letters and digits that IDNA maps
	"http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://127.0.0.1/", "http://127%E3%80%820.0.1/",
	"http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "http://local\u00adhost/", "http://①②⑦。1/", "http://\u200b/",
	// localhost and malformed names
	"http://localhost/", "HTTP://LOCALHOST/", "http://localhost./", "http://a.localhost/", "http://LocalHost:80/",
	"http://127.0.0.1./", "http://8.8.8.8../", "http://example.com../", "http://.example.com/", "http://a..b/",
	// IPv6
	"http://[::]/", "http://[::ffff:7f00:1]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/",
	"http://[::ffff:127.0.0.1%25x]/", "http://[fe80::1%25lo]/", "http://[::1%25lo]/", "http://[2606:4700:4700::1111%25eth0]/",
	// user info
	"http://example.com@127.0.0.1/", "http://127.0.0.1#@example.com/", "http://127.0.0.1%2f@x/",
	"http://@example.com/", "http://user:password@example.com/",
	// ports
	"http://example.com:0/", "http://example.com:22/", "http://example.com:6379/", "http://example.com:65536/",
	"http://example.com:99999999999/", "http://example.com:8080/", "http://example.com:65616/",
	// other schemes, no host
	"file:///etc/passwd", "gopher://example.com/", "ftp://example.com/", "data:text/plain,x", "//example.com/",
	"http:/h", "http:h", "http:///h", "http://", "http://:80/", "mailto:a@example.com", "/path", "",
	// characters
	"http://example.com/a%0d%0ab", "http://example.com/a%00", "http://example.com/a\\b", "http://example.com/a%5cb",
	"http://example.com/?a\\b", "http://exa*mple.com/", "http://exa$mple.com/", "http://*.example.com/",
}

// unparsableURLs are rejected by net/url.
var unparsableURLs = []string{
	"http://good\\@127.0.0.1/", "http://exa mple.com/", "http://example.com\r\n/", "http://exa\tmple.com/",
	"http://exa%00mple.com/", "http://%31%32%37.0.0.1/", "http://example.com:80:80/", "http://[127.0.0.1]/",
}

var publicURLs = []string{
	"http://example.com", "https://example.com/a/b?c=d#e", "HTTPS://EXAMPLE.COM/", "http://example.com./",
	"http://example.com:80/", "http://example.com:443/", "https://example.com:/", "http://8.8.8.8/",
	"http://[2606:4700:4700::1111]:443/", "http://bücher.example/", "http://xn--bcher-kva.example/",
	"http://a_b.example.com/", "http://127.0.0.1.nip.example/", "http://1e100.net/", "http://0x7f.example/",
	"https://example.com/a%20b/%C3%A9?a b", "http://localhost.example/", "http://⑧.8.8.8/",
}

func TestOpener_CheckURL(t *testing.T) {
	t.Parallel()
	c := newClient(t, fetch.Options{})
	forbidden, public := slices.Clone(forbiddenURLs), slices.Clone(publicURLs)
	for _, ip := range specialIPs {
		forbidden = append(forbidden, ipURL(ip))
	}
	for _, ip := range publicIPs {
		public = append(public, ipURL(ip))
	}
	for _, rawURL := range forbidden {
		u := parse(t, rawURL)
		err := c.Check(u)
		if forbidden, ok := errors.AsType[*exports.ForbiddenError](err); !ok || forbidden.Reason == "" || !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("Check(%s): %v", rawURL, err)
		}
		if _, err := c.Open(t.Context(), u); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("Open(%s): %v", rawURL, err)
		}
	}
	for _, rawURL := range unparsableURLs {
		if u, err := url.Parse(rawURL); err == nil && c.Check(u) == nil {
			t.Errorf("Check accepts %q", rawURL)
		}
	}
	is.New(t).True(c.dials() == nil)
	for _, rawURL := range public {
		if err := c.Check(parse(t, rawURL)); err != nil {
			t.Errorf("Check(%s): %v", rawURL, err)
		}
	}
}

func TestOpener_Serves(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{})
	is.True(c.Serves(parse(t, "HTTP://127.0.0.1/")))
	is.True(c.Serves(parse(t, "https://example.com/")))
	is.True(!c.Serves(parse(t, "ftp://example.com/")))
	is.True(!c.Serves(parse(t, "/path")))
}

func TestOpener_CheckAllowedHosts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := fetch.Options{AllowedHosts: []string{
		"Intranet", "files.example.test.:8443", "*.apps.example.test", "*.ports.example.test:9000",
		"10.0.0.1", "127.0.0.1:9000", "::1", "[fd00::1]:8080", "BÜCHER.example", "localhost:3000",
	}}
	const public, allowed, denied = 0, 1, 2 // public is denied if OnlyAllowed
	for rawURL, want := range map[string]int{
		"http://intranet/":                    allowed,
		"https://INTRANET.:12345/":            allowed,
		"http://x.intranet/":                  public,
		"https://files.example.test:8443/":    allowed,
		"https://files.example.test/":         public,
		"https://a.files.example.test:8443/":  denied,
		"http://a.apps.example.test:1/":       allowed,
		"http://a.b.apps.example.test/":       allowed,
		"http://apps.example.test/":           public,
		"http://evilapps.example.test/":       public,
		"http://a.apps.example.test.evil/":    public,
		"http://a.ports.example.test:9000/":   allowed,
		"http://a.ports.example.test:9001/":   denied,
		"http://10.0.0.1:22/":                 allowed,
		"http://10.0.0.1./":                   allowed,
		"http://10.0.0.2/":                    denied,
		"http://[::ffff:10.0.0.1]/":           denied,
		"http://127.0.0.1:9000/":              allowed,
		"http://127.0.0.1/":                   denied,
		"http://127.1:9000/":                  denied,
		"http://[::1]:7/":                     allowed,
		"http://[0:0:0:0:0:0:0:1]/":           allowed,
		"http://[::1%25lo]/":                  denied,
		"http://[fd00::1]:8080/":              allowed,
		"http://[fd00::1]/":                   denied,
		"http://xn--bcher-kva.example:81/":    allowed,
		"http://bu\u0308cher.example:81/":     allowed,
		"http://localhost:3000/":              allowed,
		"http://localhost/":                   denied,
		"http://intranet:0/":                  denied,
		"http://user@intranet/":               denied,
		"ftp://intranet/":                     denied,
		"http://①0.0.0.1/":                    allowed,
		"https://files.example.test:08443/":   allowed,
		"https://files.example.test:8443/a#b": allowed,
	} {
		t.Log(rawURL)
		u := parse(t, rawURL)
		o.OnlyAllowed = false
		is.Equal(newClient(t, o).Check(u) == nil, want != denied)
		o.OnlyAllowed = true
		is.Equal(newClient(t, o).Check(u) == nil, want == allowed)
	}
}

func TestOpener_CheckPorts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{Ports: []uint16{8080}})
	is.NoErr(c.Check(parse(t, "http://example.com:8080/")))
	is.True(c.Check(parse(t, "http://example.com/")) != nil)   // Ports replaces the default
	is.True(c.Check(parse(t, "http://10.0.0.1:8080/")) != nil) // Ports does not allow private IP addresses
	is.True(c.CheckDial("8.8.8.8:80") != nil)                  // the SSRF guard checks the port as well
	is.NoErr(c.CheckDial("8.8.8.8:8080"))
}

func TestNew_AllowedHosts(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "*", "*.", "http://example.com", "example.com/", "a b", "*.10.0.0.1", "a*.example.com",
		"*.*.example.com", "example.com:0", "example.com:70000", "example.com:http", "127.1", "fe80::1%lo", "a..b", "user@example.com"} {
		_, err := fetch.New(&fetch.Options{AllowedHosts: []string{entry}})
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(entry)) {
			t.Errorf("New accepts %q or does not quote it: %v", entry, err)
		}
	}
	for _, entry := range []string{"a", "a:1", "*.a", "*.a:1", "::1", "[::1]", "[::1]:80", "10.0.0.1", "10.0.0.1:80", "bücher.example."} {
		if _, err := fetch.New(&fetch.Options{AllowedHosts: []string{entry}}); err != nil {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

func TestOpener_OpenFollowsRedirects(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Method != "GET" {
			t.Errorf("%s with Referer %q", r.Method, r.Header.Get("Referer"))
		}
		hops, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if hops == 0 {
			io.WriteString(w, "content")
			return
		}
		statuses := []int{301, 302, 303, 307, 308}
		w.Header().Set("Location", fmt.Sprintf("../%d", hops-1))
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(statuses[hops%len(statuses)])
	})
	allowed := []string{host}
	c := newClient(t, fetch.Options{AllowedHosts: allowed})
	content := must(c.read(t, baseURL+"/5"))(t)
	is.Equal(content, "content")
	_, err := c.read(t, baseURL+"/6")
	is.True(errors.Is(err, exports.ErrFailed)) // one more than MaxRedirects

	_, err = newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: -1}).read(t, baseURL+"/1")
	is.True(errors.Is(err, exports.ErrFailed)) // follows none
	must(newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: 6}).read(t, baseURL+"/6"))(t)
}

func TestOpener_OpenRejectsRedirect(t *testing.T) {
	t.Parallel()
	var target string
	_, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Location", "/second")
		} else {
			w.Header().Set("Location", target)
		}
		w.WriteHeader(http.StatusFound)
	})
	_, port, _ := net.SplitHostPort(host)
	names := fakeResolver(map[string][]string{
		"origin.example.test":  {"127.0.0.1"},
		"private.example.test": {"10.0.0.1"},
		"other.example.test":   {"127.0.0.1"},
	})
	targets := append([]string{
		"http://private.example.test/", "http://other.example.test/", "//other.example.test/", "https://private.example.test/",
		"http://other.example.test:" + port + "/", // another name of the allowed host
		"http://127.0.0.1:" + port + "/",          // its IP address
		"http://origin.example.test/",             // an allowed host on another port
		"file:///etc/passwd", "ftp://origin.example.test/", "javascript:0", "mailto:a@example.test", "http:///",
		"http://user:password@origin.example.test:" + port + "/",
	}, forbiddenRedirects()...)
	for _, target = range targets {
		c := newClient(t, fetch.Options{AllowedHosts: []string{"origin.example.test:" + port}, Resolver: names})
		_, err := c.read(t, "http://origin.example.test:"+port+"/")
		if !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("%s: %v", target, err)
		}
		if dialed := slices.Compact(c.dials()); len(dialed) != 1 || dialed[0] != host {
			t.Errorf("%s: dialed %v", target, dialed)
		}
		c.CloseIdleConnections()
	}
}

func forbiddenRedirects() []string {
	targets := []string{"http://169.254.169.254/latest/meta-data/", "//169.254.169.254/"}
	for _, ip := range specialIPs {
		targets = append(targets, ipURL(ip))
	}
	for _, rawURL := range forbiddenURLs {
		if strings.HasPrefix(strings.ToLower(rawURL), "http://") && rawURL != "http://" {
			targets = append(targets, rawURL)
		}
	}
	return targets
}
