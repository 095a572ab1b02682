package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// failing answers the requests for a part of the API with an error as long as
// it is on.
type failing struct {
	http.Handler
	on     *atomic.Bool
	part   string
	status int
	body   string
	retry  string
}

func (f failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.on.Load() || !strings.Contains(r.URL.Path, f.part) {
		f.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "id-of-the-header")
	if f.retry != "" {
		w.Header().Set("Retry-After", f.retry)
	}
	w.WriteHeader(f.status)
	fmt.Fprint(w, f.body)
}

func TestStates_ofFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failing
		screen string
		sees   []string
	}{
		"unavailable": {
			failing{part: "/admin/", status: 503, body: `{"message":"the service is not available right now","code":"unavailable","requestId":"r-503"}`, retry: "1"}, "keys",
			[]string{"Server error", "The service is not available right now. Retry in 1 s.", "Request r-503"},
		},
		"internal": {
			failing{part: "/folders", status: 500, body: `{"message":"internal error","code":"internal","requestId":"r-500"}`}, "symbols",
			[]string{"Server error", "Internal error.", "Request r-500"},
		},
		"symbols of a folder": {
			failing{part: "/1/symbols", status: 503, body: `{"message":"the service is not available right now","code":"unavailable","requestId":"r-503"}`}, "symbols",
			[]string{"Server error", "Request r-503"},
		},
		"too many guesses": {
			failing{part: "/admin/", status: 429, body: `{"message":"too many wrong keys from this address","code":"too_many_requests","requestId":"r-429"}`, retry: "7"}, "keys",
			[]string{"Too many wrong keys from this address. Retry in 7 s."},
		},
		"a proxy's page": {
			failing{part: "/admin/", status: 502, body: `<h1>Bad gateway</h1>`}, "keys",
			[]string{"Server error", "The response has status 502.", "Request id-of-the-header"},
		},
		"another server's page": {
			failing{part: "/admin/", status: 200, body: `<h1>Welcome</h1>`}, "keys",
			[]string{"The response is not JSON. Is this the URL of the API?"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.folder("Valves", "Gate valve")
			c.failing.Handler, c.on = s.handler(unprotected), new(atomic.Bool)
			c.on.Store(true)
			s.listen(c.failing)
			b := open(t, s.url+"#/"+c.screen)
			for _, text := range c.sees {
				b.sees(text)
			}
			c.on.Store(false)
			b.press("Retry")
			b.sees(map[string]string{"keys": "Admin key required", "symbols": "Gate valve"}[c.screen])
		})
	}
}

func TestStates_ofKeys(t *testing.T) {
	t.Parallel()
	s := serve(t)
	key := s.key("Test key")
	b := openWithClientKey(s, "symbols")
	b.sees("No folders yet")
	if _, err := s.keys.Update(t.Context(), key.ID, inactive); err != nil {
		t.Fatal(err)
	}
	b.do(reload)
	b.sees("Client key required")
	b.giveKey("Client key", s.raw)
	b.sees("This API key is inactive.")

	off := serve(t, func(o *httpapi.Options) { o.AdminKeys = nil })
	b = open(t, off.url)
	b.sees("No admin key is configured on this server.")
	if eval[bool](b, `Boolean(document.querySelector("main form"))`) {
		t.Error("a key is asked for that cannot be right")
	}
}

func TestStates_ofAServerThatOffersLess(t *testing.T) {
	t.Parallel()
	s := serve(t, unprotected, func(o *httpapi.Options) { o.Keys, o.Symbols, o.Exports = nil, nil, nil })
	b := open(t, s.url)
	b.sees("No such route.")
	b.press("Symbols")
	b.wait(`location.hash === "#/symbols"`)
	b.sees("No such route.")
	b.press("Exports")
	b.fill("Sources", "x")
	b.press("Download")
	b.sees("No such route.")
}

func TestStates_offline(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	s.folder("Valves", "Gate valve")
	b := open(t, s.url+"#/symbols")
	b.sees("Gate valve")
	offline := func(on bool) {
		call(b, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: on, DownloadThroughput: -1, UploadThroughput: -1})
		call(b, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: on, DownloadThroughput: -1, UploadThroughput: -1}},
		})
		b.wait(fmt.Sprintf(`navigator.onLine !== %v`, on))
	}
	offline(true)
	b.press("Actions for Gate valve")
	b.press("Rename…")
	b.fill("Name", "Ball valve")
	b.press("Rename")
	b.sees("You are offline")
	is.Equal(eval[string](b, `e2e.field("Name").value`), "Ball valve") // what was typed stays
	offline(false)
	b.press("Rename")
	b.wait(`e2e.button("Actions for Ball valve")`)

	s.server.Close()
	b.press("Reload")
	b.sees("Server unreachable")
	b.sees("No response from " + s.url + "api/")
}

func TestStates_ofLoading(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	answer := make(chan struct{})
	handler := s.handler(unprotected)
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/folders") {
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		handler.ServeHTTP(w, r)
	}))
	s.folder("Valves", "Gate valve")
	b := open(t, s.url+"#/symbols")
	b.wait(`document.querySelector(".skeleton")`)
	is.Equal(eval[string](b, `document.querySelector(".skeleton").getAttribute("aria-label")`), "Loading")
	b.press("Exports") // nobody has to wait
	b.wait(`e2e.field("Sources")`)
	b.press("Symbols")
	close(answer)
	b.sees("Gate valve")
}
