package fetch_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

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
	content, err := c.read(t, baseURL+"/5")
	is.NoErr(err)
	is.Equal(content, "content")
	_, err = c.read(t, baseURL+"/6")
	is.True(errors.Is(err, exports.ErrFailed)) // one more than MaxRedirects

	_, err = newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: -1}).read(t, baseURL+"/1")
	is.True(errors.Is(err, exports.ErrFailed)) // follows none
	_, err = newClient(t, fetch.Options{AllowedHosts: allowed, MaxRedirects: 6}).read(t, baseURL+"/6")
	is.NoErr(err)
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
		if dialed := c.dials(); len(dialed) != 1 || dialed[0] != host {
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

func TestOpener_OpenAllowedHostWithPrivateIP(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClient(t, fetch.Options{
		AllowedHosts: []string{"intranet.example.test"},
		MaxAttempts:  1,
		Resolver:     fakeResolver(map[string][]string{"intranet.example.test": {"10.0.0.1"}}),
	})
	_, err := c.read(t, "http://intranet.example.test:8080/")
	is.True(errors.Is(err, fetch.ErrIntercepted))
	is.Equal(c.dials(), []string{"10.0.0.1:8080"})
}
