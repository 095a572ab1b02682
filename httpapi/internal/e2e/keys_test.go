package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// accepts reports whether a raw key opens the client routes.
func (s *site) accepts(raw string) bool {
	s.t.Helper()
	is := is.New(s.t)
	request, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"api/symbol/folders", nil)
	is.NoErr(err)
	request.Header.Set("x-api-key", raw)
	response, err := http.DefaultClient.Do(request)
	is.NoErr(err)
	response.Body.Close()
	return response.StatusCode == 200
}

func TestKeys_AreCreatedUsedAndChanged(t *testing.T) {
	s := startSite(t)
	b := openTab(t, s.url+"#/keys")

	b.waitText("Admin key required")
	b.enterKey("Admin key", "schlüssel") // not allowed in a header
	b.wait(`e2e.field("Admin key").matches(":invalid")`)
	b.enterKey("Admin key", "a wrong one")
	b.waitText("Key rejected", "x-admin-key is not a valid key")
	b.waitFocus(`e2e.field("Admin key")`)
	equal(b, `e2e.field("Admin key").value`, "")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText(keyName)

	b.click("Create key")
	b.fill("Name", "My <b>viewer</b>")
	b.click("90 days")
	b.waitText("local time.")
	b.click("Create key")
	b.waitText("Store the key of My <b>viewer</b> now.")
	raw := eval[string](b, `document.querySelector(".secret code").innerText`)
	s.is.True(s.accepts(raw))
	s.is.True(strings.Contains(eval[string](b, `document.querySelector("dialog pre").innerText`), "-H 'x-api-key: "+raw+"'"))
	until := s.keyNamed("My <b>viewer</b>").ExpiresAt
	s.is.True(until.After(time.Now().Add(89*24*time.Hour)) && until.Before(time.Now().Add(91*24*time.Hour)))

	b.click("Copy key")
	b.waitText("Copied.")
	equal(b, `navigator.clipboard.readText()`, raw)
	b.click("Download .env")
	s.is.Equal(string(b.downloaded("canvasback.env")), "# My <b>viewer</b>\nCANVASBACK_URL="+s.url+"api\nCLIENT_API_KEY="+raw+"\n")
	b.click("Use it in this console")
	b.waitText("In use in this console")
	b.click("Done")
	b.waitFocus(`document.getElementById("create-key")`)
	s.is.True(!strings.Contains(eval[string](b, `document.documentElement.outerHTML`), raw)) // shown once

	s.Clock.Set(time.Now())
	b.click("Symbols") // with the new key
	b.waitText("No folders yet")
	b.click("Keys")
	b.waitText("just now") // last used

	b.click("Deactivate My <b>viewer</b>")
	b.waitText("is deactivated")
	b.wait(`document.activeElement.innerText === "Activate"`)
	s.is.True(!s.keyNamed("My <b>viewer</b>").Active)
	s.is.True(!s.accepts(raw))
	b.click("Activate My <b>viewer</b>")
	b.waitText("is active again")
	s.is.True(s.accepts(raw))

	b.rename("More for My <b>viewer</b>", "Rename…", "Kiosk")
	b.waitFocus(`e2e.button("More for Kiosk")`)
	s.is.Equal(s.keyNamed("Kiosk").ExpiresAt, until) // unchanged

	b.click("More for Kiosk", "Change expiry…", "Never", "Save")
	b.waitFocus(`e2e.button("More for Kiosk")`)
	s.is.True(s.keyNamed("Kiosk").ExpiresAt.IsZero())

	b.click("More for Kiosk", "Change owner and scopes…", "Everything", "Read symbols", "Save")
	b.waitText("symbols:read")
	s.is.Equal(s.keyNamed("Kiosk").Scopes.String(), "symbols:read")

	b.click("More for Kiosk", "Rotate…")
	b.waitText("from before the current one stops working immediately")
	b.click("Rotate key")
	b.waitText("Key rotated")
	s.is.True(!s.accepts(raw))
	s.is.True(s.accepts(eval[string](b, `document.querySelector(".secret code").innerText`)))
	b.copyKey()

	b.click("More for Kiosk", "Delete…")
	b.waitText("deactivate it instead")
	b.click("Delete key")
	b.waitText("Kiosk deleted.")
	b.waitFocus(`e2e.button("More for apitest")`) // the neighbor
	page, err := s.Keys.List(t.Context(), keys.Filter{}, keys.Range{})
	s.is.NoErr(err)
	s.is.Equal(len(page.Keys), 1)
}

func TestKeys_ShowStatus(t *testing.T) {
	s := startSite(t)
	for name, fields := range map[string]keys.Fields{
		"off":     {Active: new(false)},
		"gone":    {ExpiresAt: new(time.Now().Add(-time.Hour))},
		"both":    {Active: new(false), ExpiresAt: new(time.Now().Add(-time.Hour))},
		"soon":    {ExpiresAt: new(time.Now().Add(12*24*time.Hour + time.Hour))},
		"today":   {ExpiresAt: new(time.Now().Add(time.Hour))},
		"far off": {ExpiresAt: new(time.Now().Add(40 * 24 * time.Hour))},
	} {
		s.createKey(name, fields)
	}
	b := openKeys(s)
	for name, want := range map[string]string{
		"off": "Inactive", "gone": "Expired", "both": "Inactive Expired", "soon": "Expires in 12 days", "today": "Expires in a day", "far off": "Active", keyName: "Active",
	} {
		t.Log(name, want)
		got := eval[string](b, `[...document.querySelectorAll("tbody tr")].find((row) => row.querySelector(".name").innerText === `+quote(name)+`)
			.querySelector("[data-name=Status]").innerText.trim().split(/\s*\n\s*|\s{2,}/).join(" ")`)
		s.is.Equal(got, want)
	}
}

func TestKeys_CanBeManagedByKeyboard(t *testing.T) {
	s := startSite(t)
	b := openTab(t, s.url+"#/keys")
	// moveTo presses a key until the element with a name has the focus. The focus
	// must always be visible.
	moveTo := func(key, name string) {
		t.Helper()
		for range 40 {
			if eval[string](b, focused) == name {
				return
			}
			b.typeKeys(key)
			if !eval[bool](b, `document.activeElement === document.body || getComputedStyle(document.activeElement.matches("[type=radio]") ? document.activeElement.nextSibling : document.activeElement).outlineStyle !== "none"`) {
				t.Errorf("the focus on %q is not visible", eval[string](b, focused))
			}
		}
		t.Fatalf("%q does not get the focus; the last one is %q", name, eval[string](b, focused))
	}
	b.waitFocus(`e2e.field("Admin key")`)
	b.typeKeys(apitest.AdminKey + kb.Enter)
	b.wait(`e2e.button("Create key")`)
	b.waitFocus(`document.getElementById("title")`)
	moveTo(kb.Tab, "Create key")
	b.typeKeys(kb.Enter)
	b.waitFocus(`e2e.field("Name")`)
	b.typeKeys("By hand" + kb.Tab)
	b.wait(`document.activeElement.type === "radio"`)
	b.typeKeys(kb.ArrowRight + kb.Enter) // submits the form
	b.waitText("Key created")
	equal(b, focused, "Copy key")
	is.New(t).True(s.keyNamed("By hand").ExpiresAt.After(time.Now().Add(29 * 24 * time.Hour)))
	b.typeKeys(kb.Enter)
	b.waitText("Copied.")
	moveTo(kb.Tab, "Done")
	b.typeKeys(kb.Enter)
	b.waitFocus(`document.getElementById("create-key")`)
	moveTo(kb.Tab, "More for By hand")
	b.pressThrough([][2]string{
		{kb.Enter, "Rename…"}, {kb.ArrowDown, "Change expiry…"}, {kb.ArrowUp + kb.ArrowUp, "Delete…"},
		{kb.Escape, "More for By hand"},
	})
	b.wait(`!document.querySelector(".menu")`)
	b.pressThrough([][2]string{
		{kb.Enter, "Rename…"}, {kb.ArrowUp + kb.Enter, "Cancel"}, // not the delete button
		{kb.Escape, "More for By hand"},
	})
	b.wait(`!document.querySelector("dialog")`)
}

func TestKeys_RawKeyDialogWarnsBeforeClosing(t *testing.T) {
	s := startSite(t)
	b := openKeys(s)
	b.createKey("k")
	b.waitText("Key created")
	b.typeKeys(kb.Escape)
	b.waitText("The key has not been copied")
	b.typeKeys(kb.Escape)
	b.wait(`!document.querySelector("dialog")`)
}

// TestKeys_NewKeyOfAnotherTenant uses a new key after another one has shown its symbols.
func TestKeys_NewKeyOfAnotherTenant(t *testing.T) {
	s := startSite(t, func(o *httpapi.Options) { o.Tenant = httpapi.TenantOfOwner })
	first := s.createKey("first", keys.Fields{Owner: new("a")})
	for _, owner := range []string{"a", "b"} {
		_, err := s.Symbols.Tenant(owner).CreateFolder(t.Context(), "Folder of "+owner)
		s.is.NoErr(err)
	}
	s.createKey("second", keys.Fields{Owner: new("b")})
	b := openKeys(s)
	b.clickNode(`document.getElementById("access")`)
	b.enterInDialog("Client key", string(first.Raw))
	b.click("Symbols")
	b.waitText("Folder of a")
	b.click("Keys")
	time.Sleep(500 * time.Millisecond) // a list that is read again closes menus
	b.click("More for second", "Rotate…", "Rotate key", "Use it in this console", "Done", "Symbols")
	b.waitText("Folder of b")
}

func TestKeys_StoreInTabIsOptional(t *testing.T) {
	s := startSite(t)
	b := openKeys(s)
	equal(b, `sessionStorage.length + localStorage.length + document.cookie.length`, 0)
	b.do(reload)
	b.waitText("Admin key required") // in memory only

	b.click("Keep this key in this tab across reloads")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText(keyName)
	b.do(reload)
	b.waitText(keyName)
	equal(b, `sessionStorage.length`, 1)
	equal(b, `localStorage.length + document.cookie.length`, 0)

	b.click("Access admin")
	b.waitText("kept in this tab")
	b.click("Forget the admin key")
	b.waitText("Admin key required")
	equal(b, `sessionStorage.length`, 0)

	b.click("Keep this key in this tab across reloads")
	b.enterKey("Admin key", "a wrong one")
	b.waitText("Key rejected")
	equal(b, `sessionStorage.length`, 0) // a rejected key is not stored
}

func TestKeys_AreNotSavedAsPasswords(t *testing.T) {
	s := startSite(t)
	b := openTab(t, s.url+"#/keys")
	b.waitText("Admin key required")
	equal(b, `e2e.field("Admin key").type`, "password")
	equal(b, `e2e.field("Admin key").autocomplete`, "new-password")
	equal(b, `e2e.field("Admin key").form.autocomplete`, "off")
	b.enterKey("Admin key", apitest.AdminKey)
	b.click("Create key")
	equal(b, `e2e.field("Name").autocomplete`, "off")
}

// inactive is the change that deactivates a key.
var inactive = keys.Fields{Active: new(false)}

// TestKeys_HiddenFieldsDoNotCount leaves invalid fields in parts of forms that are closed again.
func TestKeys_HiddenFieldsDoNotCount(t *testing.T) {
	s := startSite(t)
	b := openKeys(s)
	b.clickNode(`document.querySelector("tbody input[type=checkbox]")`)
	b.click("Change…", "Expiry", "Date", "Expiry", "Owner")
	b.clickNode(`document.querySelector("dialog input[list=owners]")`)
	b.typeKeys("acme")
	b.clickNode(`document.querySelector("dialog footer .main")`)
	b.waitFor(func() bool { return s.keyNamed(keyName).Owner == "acme" }, "the change of the owner")

	b.click("Create key")
	b.fill("Name", "k")
	b.click("Everything")
	b.fill("Other scopes", "Reports!")
	b.click("Everything")
	b.clickNode(`document.querySelector("dialog footer .main")`)
	b.waitText("Store the key of k now")
}

// TestKeys_PageOfKeyIsChanged deactivates a key with two clicks, and keeps the focus. It takes
// that back on the page of another key.
func TestKeys_PageOfKeyIsChanged(t *testing.T) {
	s := startSite(t)
	s.createKey("second", keys.Fields{})
	b := openKeys(s)
	b.visit(s.url + "#/key/1")
	b.wait(`e2e.button("Deactivate")`)
	eval[bool](b, `(() => { const one = e2e.button("Deactivate"); one.focus(); one.click(); one.click(); return true; })()`)
	b.waitText("is deactivated")
	b.waitFocus(`e2e.button("Activate")`)
	equal(b, `document.querySelectorAll("dialog").length`, 0)
	b.visit(s.url + "#/key/2")
	b.waitText("ID 2")
	b.undo()
	equal(b, `document.getElementById("title").innerText`, "second")
}

// TestKeys_OwnerIsPartOfAnother lists the keys of an owner whose name is part of another's.
func TestKeys_OwnerIsPartOfAnother(t *testing.T) {
	s := startSite(t)
	for _, owner := range []string{"acme", "acme ltd"} {
		s.createKey("key of "+owner, keys.Fields{Owner: &owner})
	}
	b := openKeys(s)
	b.fill("Owner", "acm")
	b.waitText("2 of 3 keys")
	b.visit(s.url + "#/owner/acme")
	b.click("1 key, 1 active")
	b.waitText("1 of 3 keys")
}

// In Berlin, the last second of the year 9999 is in the year 10000.
func TestKeys_ExpiryOfYear9999(t *testing.T) {
	s := startSite(t)
	s.updateKey(keys.Fields{ExpiresAt: new(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))})
	b := openTab(t, s.url+"icon.svg")
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
	b.visit(s.url + "#/keys")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText(keyName)
	b.click("More for "+keyName, "Change expiry…")
	b.wait(`e2e.field("Last day").value === "10000-01-01"`)
}

// The list stays in order while it cannot be read again.
func TestKeys_OrderAfterFailedReload(t *testing.T) {
	s := startSite(t)
	for _, name := range []string{"delta", "alpha"} {
		s.createKey(name, keys.Fields{})
	}
	b := openTab(t, s.url+"#/keys?order=By+name")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText("delta")
	s.failure.Store(&failure{part: "/admin/api-keys", status: 503, body: "{}"})
	b.click("Reload")
	b.waitText("Retry")
	b.fill("Search by name, owner, id or scope", "a")
	b.wait(`[...document.querySelectorAll("tbody a.name")].map((node) => node.innerText).join() === "alpha,apitest,delta"`)
	s.failure.Store(nil)
	b.click("Reload")
	b.waitNoText("Retry")
}
