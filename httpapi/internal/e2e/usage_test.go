package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"

	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// TestUsage_IsDrawn uses a key on three days.
func TestUsage_IsDrawn(t *testing.T) {
	s := startSite(t)
	const name = "Viewer of the plant in Hamburg"
	s.updateKey(keys.Fields{Name: new(name), Owner: new("team-1")})
	for day, requests := range []int{3, 0, 5, 1} {
		if day > 0 {
			s.Clock.Add(24 * time.Hour)
		}
		s.countUses(func() {
			for range requests {
				s.is.True(s.accepts(string(s.RawKey)))
			}
		})
	}
	b := openKeys(s)
	const sum = "9 requests in 30 days, 5 at most in one"
	b.wait(`document.querySelector(".records .plot")?.getAttribute("aria-label") === ` + quote(sum))
	equal(b, `[...document.querySelectorAll(".records .uses td:last-child")].map((cell) => cell.textContent)`, []string{"1", "5", "3"})
	b.resize(320, 640)
	equal(b, `document.documentElement.scrollWidth`, 320)
	b.resize(1280, 900)
	for _, link := range []string{name, "team-1"} { // the page of the key, and from there of its owner
		b.clickNode(`[...document.querySelectorAll("main a")].find((one) => one.innerText === ` + quote(link) + `)`)
		b.waitText("9 accepted requests since")
		b.wait(`document.getElementById("title").innerText === ` + quote(link))
		equal(b, `document.querySelector("main .plot")?.getAttribute("aria-label") ?? ""`, sum) // not at once
		b.click("A year")
		b.wait(`document.querySelectorAll("main .plot rect").length === 365`)
		b.click("As a table")
		equal(b, texts("main .days tbody td:last-child"), []string{"1", "5", "3"})
	}
	eval[bool](b, `(location.hash = "#/key/99", true)`)
	b.waitText("There is no key 99")
	b.click("Overview")
	b.waitText("9 accepted requests since")
}

// TestKeys_ManyAreChangedByOneRequest counts the requests that change keys.
func TestKeys_ManyAreChangedByOneRequest(t *testing.T) {
	s := startSite(t)
	for i := range 24 {
		s.createKey(fmt.Sprintf("Viewer %d", i), keys.Fields{})
	}
	all := func(matches func(keys.Key) bool) (n int) {
		for i := range 24 {
			if matches(s.keyNamed(fmt.Sprintf("Viewer %d", i))) {
				n++
			}
		}
		return n
	}
	active := func(key keys.Key) bool { return key.Active }
	b := openKeys(s)
	changes := func() int { return b.sent(func(r *network.Request) bool { return r.Method != "GET" }) }
	b.fill("Search by name, owner, id or scope", "viewer")
	b.waitText("24 of 25 keys")
	b.clickNode(`e2e.field("Select Viewer 0")`)
	b.clickSelection("Select all")
	b.waitText("24 keys selected")

	b.clickSelection("Deactivate") // so many are confirmed
	b.waitText("Deactivate 24 keys?", "Clients that use them are rejected from then on.")
	b.click("Cancel")
	s.is.Equal(all(active), 24)
	b.clickSelection("Deactivate")
	b.click("Deactivate 24 keys")
	b.waitText("24 keys deactivated.")
	s.is.Equal([]int{changes(), all(active)}, []int{1, 0})
	b.undo()
	s.is.Equal([]int{changes(), all(active)}, []int{2, 24})

	b.clickSelection("Change…")
	b.waitText("Change 24 keys")
	b.click("Change")
	b.waitText("Choose what to change.")
	b.clickNode(`e2e.field("Owner")`)
	b.wait(`document.querySelector("dialog input[list=owners], dialog input:not([type])")?.checkVisibility()`)
	eval[bool](b, `(() => {
		const input = [...document.querySelectorAll("dialog input:not([type=checkbox], [type=radio])")].find((one) => one.checkVisibility());
		input.value = "team-9";
		return true;
	})()`)
	b.clickNode(`document.querySelector("dialog footer .main, dialog footer [type=submit]")`)
	b.waitText("24 keys changed.")
	s.is.Equal(all(func(key keys.Key) bool { return key.Owner == "team-9" }), 24)
	s.is.Equal(changes(), 3)

	b.clickSelection("Change…") // an error keeps what is entered
	b.clickNode(`e2e.field("Scopes")`)
	b.clickNode(`e2e.field("Everything")`)
	b.fill("Other scopes", "x x")
	b.clickNode(`document.querySelector("dialog footer .main")`)
	b.wait(`document.querySelector("dialog .problem:not([hidden])")?.innerText.includes("must not be repeated")`)
	equal(b, `e2e.field("Other scopes").value`, "x x")
	b.click("Cancel")
	b.wait(`!document.querySelector("dialog")`)

	b.fill("Search by name, owner, id or scope", "viewer 2")
	b.waitText("24 keys selected, 19 of them not in this list")
}

// TestKeys_ReportsConcurrentChange changes a key that the page shows.
func TestKeys_ReportsConcurrentChange(t *testing.T) {
	s := startSite(t)
	b := openKeys(s)
	b.wait(`e2e.button("Deactivate apitest")`)
	key := s.updateKey(keys.Fields{Name: new("Renamed by Bob")})
	b.rename("More for apitest", "Rename…", "Renamed by Ann")
	b.waitText("Changed by someone else", "Renamed by Bob\tRenamed by Ann")
	b.click("Use mine")
	b.waitText("Renamed by Ann changed.")
	s.is.Equal(s.keyNamed("Renamed by Ann").ID, key.ID)

	_, err := s.Keys.Update(t.Context(), key.ID, inactive)
	s.is.NoErr(err)
	b.click("Deactivate Renamed by Ann") // without a dialog
	b.waitText("Keep which change?")
	b.click("Keep theirs")
	b.wait(`e2e.button("Activate Renamed by Ann")`)
	_, err = s.Keys.Rotate(t.Context(), key.ID, 0)
	s.is.NoErr(err)
	b.click("More for Renamed by Ann", "Rotate…", "Rotate key")
	b.waitText("Changed by someone else", "A new one")
	b.click("Keep theirs", "More for Renamed by Ann", "Delete…", "Delete key")
	b.waitText("Renamed by Ann deleted.")
}

// TestKeys_ListIsInTheURL opens the URL of a list elsewhere.
func TestKeys_ListIsInTheURL(t *testing.T) {
	s := startSite(t)
	for i := range 120 {
		s.createKey(fmt.Sprintf("Viewer %d", i), keys.Fields{Owner: new("team & co")})
	}
	b := openKeys(s)
	b.waitText("121 keys")
	b.fill("Owner", "team &")
	b.chooseOption("Order", "Oldest first")
	b.click("Next page")
	b.waitText("51–100 of 120")
	first := eval[string](b, texts(".records .name")+"[0]")
	url := s.url + eval[string](b, `location.hash`)
	other := openTab(t, url)
	other.enterKey("Admin key", apitest.AdminKey)
	other.waitText("51–100 of 120")
	equal(other, texts(".records .name")+"[0]", first)
}

func TestUsage_HasDaysOfUTC(t *testing.T) {
	s := startSite(t)
	s.countUses(func() { s.is.True(s.accepts(string(s.RawKey))) })
	b := openKeys(s)
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"})
	b.visit(s.url + "?#/key/1")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText("1 accepted request since")
	b.click("As a table")
	equal(b, texts("main .days tbody td:first-child"), []string{s.Clock.Now().UTC().Format("2 Jan 2006")})
}
