package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// key returns the one key of a name.
func (s *site) key(name string) keys.Key {
	s.t.Helper()
	list, err := s.keys.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, key := range list {
		if key.Name == name {
			return key
		}
	}
	s.t.Fatalf("there is no key %q", name)
	return keys.Key{}
}

// accepts reports whether a raw key opens the client routes.
func (s *site) accepts(raw string) bool {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"api/symbol/folders", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("x-api-key", raw)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode == 200
}

func TestKeys_areCreatedUsedAndChanged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	b := open(t, s.url)

	b.sees("Admin key required")
	b.giveKey("Admin key", "schlüssel") // which no header could carry
	b.wait(`e2e.field("Admin key").matches(":invalid")`)
	b.giveKey("Admin key", "a wrong one")
	b.sees("Key rejected")
	b.sees("x-admin-key is not a valid key")
	b.waitFocus(`e2e.field("Admin key")`)
	is.Equal(eval[string](b, `e2e.field("Admin key").value`), "")
	b.giveKey("Admin key", adminKey)
	b.sees("Test key")

	b.press("Create key")
	b.fill("Name", "My <b>viewer</b>")
	b.press("90 days")
	b.sees("local time.")
	b.press("Create key")
	b.sees("Store the key of My <b>viewer</b> now.")
	raw := eval[string](b, `document.querySelector(".secret code").innerText`)
	is.True(s.accepts(raw))
	is.True(strings.Contains(eval[string](b, `document.querySelector("dialog pre").innerText`), "-H 'x-api-key: "+raw+"'"))
	until := s.key("My <b>viewer</b>").ExpiresAt
	is.True(until.After(time.Now().Add(89*24*time.Hour)) && until.Before(time.Now().Add(91*24*time.Hour)))

	b.press("Copy key")
	b.sees("Copied.")
	is.Equal(eval[string](b, `navigator.clipboard.readText()`), raw)
	b.press("Download .env")
	is.Equal(string(b.downloaded("canvasback.env")), "# My <b>viewer</b>\nCANVASBACK_URL="+s.url+"api\nCLIENT_API_KEY="+raw+"\n")
	b.press("Use it in this console")
	b.sees("In use in this console")
	b.press("Done")
	b.waitFocus(`document.getElementById("create-key")`)
	is.True(!strings.Contains(eval[string](b, `document.documentElement.outerHTML`), raw)) // shown once

	b.press("Symbols") // with the key that is in use now
	b.sees("No folders yet")
	b.press("Keys")
	b.sees("just now") // its last use

	b.press("Deactivate My <b>viewer</b>")
	b.sees("is deactivated")
	b.wait(`document.activeElement.innerText === "Activate"`) // the same place
	is.True(!s.key("My <b>viewer</b>").Active)
	is.True(!s.accepts(raw))
	b.press("Activate My <b>viewer</b>")
	b.sees("is active again")
	is.True(s.accepts(raw))

	b.press("More for My <b>viewer</b>")
	b.press("Rename…")
	b.fill("Name", "Kiosk")
	b.press("Rename")
	b.waitFocus(`e2e.button("More for Kiosk")`)
	is.Equal(s.key("Kiosk").ExpiresAt, until) // left alone

	b.press("More for Kiosk")
	b.press("Change expiry…")
	b.press("Never")
	b.press("Save")
	b.waitFocus(`e2e.button("More for Kiosk")`)
	is.True(s.key("Kiosk").ExpiresAt.IsZero())

	b.press("More for Kiosk")
	b.press("Rotate…")
	b.sees("stops working immediately, everywhere")
	b.press("Rotate key")
	b.sees("Key rotated")
	is.True(!s.accepts(raw))
	is.True(s.accepts(eval[string](b, `document.querySelector(".secret code").innerText`)))
	b.press("Copy key")
	b.wait(`e2e.button("Copied")`)
	b.press("Done")

	b.press("More for Kiosk")
	b.press("Delete…")
	b.sees("deactivate it instead")
	b.press("Delete key")
	b.sees("Kiosk deleted.")
	b.waitFocus(`e2e.button("More for Test key")`) // its neighbour
	list, err := s.keys.List(t.Context())
	is.NoErr(err)
	is.Equal(len(list), 1)
}

func TestKeys_showTheirStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, fields := range map[string]keys.Fields{
		"off":     {Active: new(false)},
		"gone":    {ExpiresAt: new(time.Now().Add(-time.Hour))},
		"both":    {Active: new(false), ExpiresAt: new(time.Now().Add(-time.Hour))},
		"soon":    {ExpiresAt: new(time.Now().Add(12*24*time.Hour + time.Hour))},
		"today":   {ExpiresAt: new(time.Now().Add(time.Hour))},
		"far off": {ExpiresAt: new(time.Now().Add(40 * 24 * time.Hour))},
	} {
		fields.Name = &name
		if _, err := s.keys.Create(t.Context(), fields); err != nil {
			t.Fatal(err)
		}
	}
	b := openKeys(s)
	for name, want := range map[string]string{
		"off": "Inactive", "gone": "Expired", "both": "Inactive Expired", "soon": "Expires in 12 days", "today": "Expires in a day", "far off": "Active", "Test key": "Active",
	} {
		got := eval[string](b, `[...document.querySelectorAll("tbody tr")].find((row) => row.querySelector(".name").innerText === `+quote(name)+`)
			.querySelector("[data-name=Status]").innerText.trim().split(/\s*\n\s*|\s{2,}/).join(" ")`)
		if got != want {
			t.Errorf("the status of %s is %q, want %q", name, got, want)
		}
	}
}

func TestKeys_byTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	b := open(t, s.url)
	// to goes on with a key until something of a name has the focus, which has
	// to be seen each time.
	to := func(key, name string) {
		t.Helper()
		for range 40 {
			if b.focused() == name {
				return
			}
			b.key(key)
			if !eval[bool](b, `document.activeElement === document.body || getComputedStyle(document.activeElement.matches("[type=radio]") ? document.activeElement.nextSibling : document.activeElement).outlineStyle !== "none"`) {
				t.Errorf("the focus on %q cannot be seen", b.focused())
			}
		}
		t.Fatalf("%q never has the focus; the last to have it is %q", name, b.focused())
	}
	b.waitFocus(`e2e.field("Admin key")`)
	b.typing(adminKey)
	b.key(kb.Enter)
	b.wait(`e2e.button("Create key")`)
	b.waitFocus(`document.getElementById("title")`)
	to(kb.Tab, "Create key")
	b.key(kb.Enter)
	b.waitFocus(`e2e.field("Name")`)
	b.typing("By hand")
	b.key(kb.Tab)
	b.wait(`document.activeElement.type === "radio"`)
	b.key(kb.ArrowRight)
	b.key(kb.Enter) // sends the form
	b.sees("Key created")
	b.wait(`e2e.name(document.activeElement) === "Copy key"`)
	is.True(s.key("By hand").ExpiresAt.After(time.Now().Add(29 * 24 * time.Hour)))
	b.key(kb.Enter)
	b.sees("Copied.")
	to(kb.Tab, "Done")
	b.key(kb.Enter)
	b.waitFocus(`document.getElementById("create-key")`)
	to(kb.Tab, "More for By hand")
	b.key(kb.Enter)
	b.wait(`e2e.name(document.activeElement) === "Rename…"`)
	b.key(kb.ArrowDown)
	b.wait(`e2e.name(document.activeElement) === "Change expiry…"`)
	b.key(kb.ArrowUp)
	b.key(kb.ArrowUp)
	b.wait(`e2e.name(document.activeElement) === "Delete…"`)
	b.key(kb.Escape)
	b.wait(`e2e.name(document.activeElement) === "More for By hand" && !document.querySelector(".menu")`)
	b.key(kb.Enter)
	b.wait(`e2e.name(document.activeElement) === "Rename…"`)
	b.key(kb.ArrowUp)
	b.key(kb.Enter)
	b.wait(`e2e.name(document.activeElement) === "Cancel"`) // not the one that deletes
	b.key(kb.Escape)
	b.wait(`!document.querySelector("dialog") && e2e.name(document.activeElement) === "More for By hand"`)
}

func TestKeys_rawKeyIsNotLeftByAccident(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := openKeys(s)
	b.press("Create key")
	b.fill("Name", "k")
	b.press("Create key")
	b.sees("Key created")
	b.key(kb.Escape)
	b.sees("The key has not been copied")
	b.key(kb.Escape)
	b.wait(`!document.querySelector("dialog")`)
}

func TestKeys_stayInTheTabIfTheReaderSaysSo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	b := openKeys(s)
	is.Equal(eval[int](b, `sessionStorage.length + localStorage.length + document.cookie.length`), 0)
	b.visit(s.url) // the same document
	b.do(reload)
	b.sees("Admin key required") // it was in memory alone

	b.press("Keep this key in this tab across reloads")
	b.giveKey("Admin key", adminKey)
	b.sees("Test key")
	b.do(reload)
	b.sees("Test key")
	is.Equal(eval[int](b, `sessionStorage.length`), 1)
	is.Equal(eval[int](b, `localStorage.length + document.cookie.length`), 0)

	b.press("Access admin")
	b.sees("kept in this tab")
	b.press("Forget the admin key")
	b.sees("Admin key required")
	is.Equal(eval[int](b, `sessionStorage.length`), 0)

	b.press("Keep this key in this tab across reloads")
	b.giveKey("Admin key", "a wrong one")
	b.sees("Key rejected")
	is.Equal(eval[int](b, `sessionStorage.length`), 0) // nor is a wrong one kept
}

func TestKeys_areNoPasswordsToBrowsers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	b := open(t, s.url)
	b.sees("Admin key required")
	is.Equal(eval[string](b, `e2e.field("Admin key").type`), "password") // hidden from onlookers
	is.Equal(eval[string](b, `e2e.field("Admin key").autocomplete`), "new-password")
	is.Equal(eval[string](b, `e2e.field("Admin key").form.autocomplete`), "off")
	b.giveKey("Admin key", adminKey)
	b.press("Create key")
	is.Equal(eval[string](b, `e2e.field("Name").autocomplete`), "off")
}

// inactive is the change that deactivates a key.
var inactive = keys.Fields{Active: new(false)}
