package clientip_test

import (
	"net/http"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/clientip"
)

func TestFinder_Find(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		header, proxies, remote string
		sent                    http.Header
		want                    string
	}{
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "192.0.2.9:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.9"}, // a client sets the header itself
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"203.0.113.5, 192.0.2.1, 10.2.2.2"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"203.0.113.5", "192.0.2.1"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"10.3.3.3"}}, "10.3.3.3"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1, unknown"}}, "10.1.1.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1:54321"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"[2001:db8::1]:54321, [fd00::1]"}}, "fd00::1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"[2001:db8::1]:54321"}}, "2001:db8::1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", nil, "10.1.1.1"},
		{"", "::1,fd00::/8", "[::1]:5", http.Header{"X-Forwarded-For": {"::ffff:192.0.2.1"}}, "192.0.2.1"},
		{"", "127.0.0.1", "[::ffff:127.0.0.1]:5", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1"},
		{"X-Real-IP", "127.0.0.1", "127.0.0.1:5", http.Header{"X-Real-Ip": {"192.0.2.1"}, "X-Forwarded-For": {"192.0.2.2"}}, "192.0.2.1"},
		{"X-Real-IP", "127.0.0.1", "192.0.2.9:5", http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.9"},
		{"", "", "192.0.2.9:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.9"},
		{"X-Real-IP", "", "192.0.2.9:5", http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.1"},
	} {
		var finder clientip.Finder
		if c.header != "" {
			is.NoErr(finder.SetHeader(c.header))
		}
		is.NoErr(finder.SetProxies(c.proxies))
		got := finder.Find(&http.Request{RemoteAddr: c.remote, Header: c.sent})
		is.Equal(got, c.want)
	}
}

func TestFinder_RejectsMappedPrefix(t *testing.T) {
	var finder clientip.Finder
	is.New(t).True(finder.SetProxies("::ffff:10.0.0.0/104") != nil) // it would contain no address
}
