package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// problem returns the body of an error response.
func problem(message, code, requestID string) string {
	return fmt.Sprintf(`{"message":%q,"code":%q,"requestId":%q}`, message, code, requestID)
}

func TestStates_Failure(t *testing.T) {
	t.Parallel()
	unavailable := problem("the service is not available right now", "unavailable", "r-503")
	internal := problem("internal error", "internal", "r-500")
	limited := problem("too many wrong keys", "too_many_requests", "r-429")
	for name, c := range map[string]struct {
		screen string
		failure
		shows []string
	}{
		"unavailable": {"keys", failure{part: "/admin/", status: 503, body: unavailable, retry: "1"},
			[]string{"Server error", "The service is not available right now. Retry in 1 s.", "Request r-503", "Retry now."}},
		"internal": {"symbols", failure{part: "/folders", status: 500, body: internal},
			[]string{"Server error", "Internal error.", "Request r-500"}},
		"symbols of a folder": {"symbols", failure{part: "/1/symbols", status: 503, body: unavailable},
			[]string{"Server error", "Request r-503"}},
		"no document": {"api", failure{part: "/openapi.json", status: 404, body: problem("no such route", "not_found", "")},
			[]string{"No such route."}},
		"rate limit": {"keys", failure{part: "/admin/", status: 429, body: limited, retry: "7"},
			[]string{"Too many wrong keys. Retry in 7 s."}},
		"page of a proxy": {"keys", failure{part: "/admin/", status: 502, body: `<h1>Bad gateway</h1>`},
			[]string{"Server error", "The response has status 502.", "Request id-of-the-header"}},
		"page of another server": {"keys", failure{part: "/admin/", status: 200, body: `<h1>Welcome</h1>`},
			[]string{"The response is not JSON. Is the URL of the API right, and that in getToken?"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, unprotected)
			s.folder("Valves", "Gate valve")
			s.failure.Store(&c.failure)
			b := openTab(t, s.url+"#/"+c.screen)
			b.waitText(c.shows...)
			s.failure.Store(nil)
			b.click("Retry")
			b.waitText(map[string]string{"keys": "Admin key required", "symbols": "Gate valve", "api": "About this API"}[c.screen])
		})
	}
}

func TestStates_RejectedKeys(t *testing.T) {
	s := startSite(t)
	b := openWithClientKey(s, "symbols")
	b.waitText("No folders yet")
	s.updateKey(inactive)
	b.do(reload)
	b.waitText("Client key required")
	b.enterKey("Client key", "cbk_nonsense")
	b.waitText("Key rejected")
	b.enterKey("Client key", string(s.RawKey))
	b.waitText("This API key is inactive.")
	s.updateKey(keys.Fields{Active: new(true)})
	b.enterKey("Client key", string(s.RawKey))
	b.waitText("No folders yet")

	disabled := anotherSite(t, func(o *httpapi.Options) { o.AdminKeys = nil })
	disabled.listen(disabled.handler())
	b = openTab(t, disabled.url+"#/keys")
	b.waitText("No admin key is configured on this server.")
	s.is.True(!eval[bool](b, `Boolean(document.querySelector("main form"))`)) // the page has a form for an admin key
}

// TestStates_RejectionEndsSelection selects a record before the key is rejected.
func TestStates_RejectionEndsSelection(t *testing.T) {
	s := startSite(t)
	s.folder("Valves", "Gate valve")
	b := openExportList(s)
	for _, screen := range [][2]string{{"Keys", "1 key selected"}, {"Symbols", "1 symbol selected"}} {
		s.failure.Store(nil)
		b.click(screen[0])
		const box = `document.querySelector("main tbody input, main .tile input")`
		b.wait(box)
		eval[bool](b, `(`+box+`.click(), true)`)
		b.waitText(screen[1])
		s.failure.Store(&failure{part: "/api/", status: 401, body: problem("unknown key", "unauthorized", "r")})
		b.click("Reload")
		b.waitText("Unknown key.")
		b.waitNoText(screen[1])
	}
}

// cookieLogin lets administrators log in with a session cookie.
func cookieLogin(o *httpapi.Options) {
	o.AuthenticateAdmin = func(r *http.Request) (string, error) {
		session, err := r.Cookie("session")
		if err != nil {
			return "", err
		}
		return session.Value, nil
	}
}

// TestStates_LoginOfTheApplication uses a session cookie in place of an admin key.
func TestStates_LoginOfTheApplication(t *testing.T) {
	s := startSite(t, cookieLogin, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey })
	b := openTab(t, s.url+"#/keys")
	b.waitText("Not logged in as an administrator.")
	equal(b, `document.querySelector("main strong").innerText`, "Login required")
	s.is.True(!eval[bool](b, `Boolean(document.querySelector("main form"))`)) // a key would not help

	eval[string](b, `document.cookie = "session=ann"`)
	b.click("Retry")
	b.waitText(keyName)
	b.createKey("By ann")
	b.waitText("Key created")
	b.copyKey()
	b.click("Deactivate By ann")
	b.waitText("is deactivated")
	s.is.True(!s.keyNamed("By ann").Active)

	b.click("Exports")
	b.registerExport(sourceURL("plan"), apitest.FilesURL+"plan.pdf")
	b.waitText("Registered.")
}

func TestStates_ServerWithoutServices(t *testing.T) {
	s := startSite(t, unprotected, func(o *httpapi.Options) { o.Keys, o.Symbols, o.Exports = nil, nil, nil })
	b := openTab(t, s.url+"#/keys")
	b.waitText("No such route.")
	b.click("Symbols")
	b.wait(`location.hash === "#/symbols"`)
	b.waitText("No such route.")
	b.click("Exports")
	b.fill("Sources", "x")
	b.click("Download")
	b.waitText("No such route.")
}

// emulateNetworkConditions is deprecated, so package network lacks it, but all versions of
// Chromium have it. Of the two commands that replace it, Chromium 148 requires other
// parameters of one, and 141 lacks the other.
var emulateNetworkConditions = cdp.Command[network.Conditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}

func TestStates_Offline(t *testing.T) {
	s, b := openValves(t, "Gate valve")
	offline := func(on bool) {
		call(b, emulateNetworkConditions, network.Conditions{Offline: on, DownloadThroughput: -1, UploadThroughput: -1})
		b.wait(fmt.Sprintf(`navigator.onLine !== %v`, on))
	}
	offline(true)
	b.rename("Actions for Gate valve", "Rename…", "Ball valve")
	b.waitText("You are offline")
	equal(b, `e2e.field("Name").value`, "Ball valve") // the input is kept
	offline(false)
	b.click("Rename")
	b.wait(`e2e.button("Actions for Ball valve")`)

	s.close()
	b.click("Reload")
	b.waitText("Server unreachable", "No response from "+s.url+"api/")
}

// TestStates_EveryScreen loads every screen in every state of the server, and once more
// after it has been shown.
func TestStates_EveryScreen(t *testing.T) {
	s := startSite(t)
	s.folder("Valves", "Gate valve")
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	key := s.updateKey(keys.Fields{Owner: new("Acme")})
	b := openTab(t, s.url)
	// open opens a screen in a new page that has both keys.
	open := func(screen string) {
		for kind, key := range map[string]string{"admin": apitest.AdminKey, "client": string(s.RawKey)} {
			eval[bool](b, fmt.Sprintf(`(sessionStorage.setItem("canvasback %s %sapi/", %s), true)`, kind, s.url, quote(key)))
		}
		eval[any](b, `history.replaceState(null, "", `+quote("#/"+screen)+`)`)
		b.do(reload)
	}
	const refresh, year = `e2e.button("Reload").click()`, `e2e.button("A year").click()`
	screens := map[string]struct{ record, again string }{
		"overview":                  {"Keys by status", refresh},
		"keys":                      {keyName, refresh},
		"symbols":                   {"Gate valve", refresh},
		"exports":                   {sourceURL("plan"), `e2e.field("Search sources").dispatchEvent(new Event("input"))`},
		"api":                       {"/viewer/exports/links", ""},
		"key/" + fmt.Sprint(key.ID): {"Permits", year},
		"owner/Acme":                {"Most used keys", year},
	}
	for _, f := range []failure{
		{status: 0},
		{status: 429, body: problem("too many requests", "too_many_requests", "r-429"), retry: "30"},
		{status: 500, body: problem("internal error", "internal", "r-500")},
		{status: 502, body: `<h1>Bad gateway</h1>`},
		{status: 503, body: problem("not available", "unavailable", "r-503"), retry: "30"},
		{status: 403, body: problem("this key lacks the scope", "forbidden", "r-403")},
		{status: 401, body: problem("unknown key", "unauthorized", "r-401")},
	} {
		f.part = "/api/"
		fails := func(record string, loaded bool) {
			t.Helper()
			if f.retry != "" {
				b.wait(`/Retry in (30|29|28|27|26|25) s/.test(e2e.text())`)
			}
			if f.status == 401 || f.status == 403 {
				b.waitText(map[int]string{401: "Unknown key.", 403: "This key lacks the scope."}[f.status])
				return
			}
			b.wait(`e2e.button("Retry")`)
			equal(b, `e2e.text().includes(`+quote(record)+`)`, loaded) // a list is not lost
			s.failure.Store(nil)
			b.click("Retry")
			b.waitText(record)
			b.wait(`!e2e.button("Retry")?.click() && !e2e.button("Retry")`) // the uses may have failed too
		}
		for screen, c := range screens {
			t.Log(f.status, screen)
			s.failure.Store(&f)
			open(screen)
			fails(c.record, false)
			s.failure.Store(nil)
			if c.again == "" {
				continue
			}
			open(screen)
			b.waitText(c.record)
			s.failure.Store(&f)
			eval[bool](b, `(`+c.again+`, true)`)
			fails(c.record, true)
			s.failure.Store(nil)
		}
	}
}

// TestStates_KeyIsRevoked revokes the key while symbols are shown.
func TestStates_KeyIsRevoked(t *testing.T) {
	var followed atomic.Bool
	s := startSite(t, func(o *httpapi.Options) {
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			followed.CompareAndSwap(false, strings.HasSuffix(r.URL.Path, "/symbol/changes"))
			return nil
		}
	})
	s.folder("Valves", "Gate valve")
	b := openWithClientKey(s, "symbols")
	b.waitText("Gate valve")
	b.waitFor(followed.Load, "the stream of changes")
	s.updateKey(inactive)
	b.waitText("changed by others") // the stream of changes has ended
	b.rename("Actions for Gate valve", "Rename…", "Ball valve")
	b.waitText("This API key is inactive.")
	b.click("Cancel", "Show changes")
	b.waitText("Client key required")
}

// TestStates_KeyIsRejectedInDialog replaces the admin key while a form is filled in.
func TestStates_KeyIsRejectedInDialog(t *testing.T) {
	s := startSite(t)
	b := openKeys(s)
	b.click("Create key")
	b.fill("Name", "New one")
	s.failure.Store(&failure{part: "/admin/", status: 401, body: problem("x-admin-key is not a valid key", "unauthorized", "r")})
	b.click("Create key", "Enter another admin key")
	s.failure.Store(nil)
	b.enterInDialog("Admin key", apitest.AdminKey)
	b.wait(`document.querySelectorAll("dialog").length === 1`)
	equal(b, `e2e.field("Name").value`, "New one")
	b.click("Create key")
	b.waitText("Key created")
}
