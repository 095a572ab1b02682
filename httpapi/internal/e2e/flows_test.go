package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// texts is the expression of the texts of the elements of a selector.
func texts(selector string) string {
	return `[...document.querySelectorAll(` + quote(selector) + `)].map((one) => one.innerText.trim())`
}

// choose selects an option of the field with a label.
func (b *tab) chooseOption(label, text string) {
	b.t.Helper()
	eval[bool](b, `(() => {
		const field = e2e.field(`+quote(label)+`);
		field.value = [...field.options].find((one) => one.text === `+quote(text)+`).value;
		return field.dispatchEvent(new Event("change"));
	})()`)
}

func TestOverview_ShowsHealthCountsAndFailures(t *testing.T) {
	s := startSite(t)
	s.failure.Store(&failure{part: "/folders", status: 500, body: problem("internal error", "internal", "r-500")})
	s.folder("Valves")
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "x")
	s.createKey("Old one", inactive)
	b := openTab(t, s.url)
	equal(b, `document.title`, "Overview · Canvasback") // the landing page
	b.enterClientKey(s)
	b.waitText("Server error") // the form of the admin key is shown again
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText("2 keys")
	b.wait(`document.querySelectorAll(".cards .good").length === 4 && document.querySelectorAll(".cards .bad").length === 1`)
	b.waitText("Version 0.1.0", "1 export", "Server error", "Ready", "Fence: partial")
	s.is.True(strings.Contains(strings.Join(b.tableRows(), "\n"), "GET symbol/folders 500 internal error r-500"))
	s.failure.Store(nil)
	b.click("Reload")
	b.waitText("1 folder")
	b.wait(`document.querySelectorAll(".cards .good").length === 5 && document.querySelector(".plot")`) // complete
	b.click("Inactive 1")
	b.wait(`document.title === "Keys · Canvasback"`)
	b.waitText("1 of 2 keys")
	equal(b, texts(".records .name"), []string{"Old one"})
	b.click("Overview") // without loading the page again, although its first URL had no fragment
	b.waitText("2 keys")
}

// TestKeys_ThousandsAreFilteredAndPaged has three pages of keys, of which the second
// is sent once the first is shown.
func TestKeys_ThousandsAreFilteredAndPaged(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return r.FormValue("after") != "" })
	for i := range 2300 {
		s.createKey(fmt.Sprintf("Viewer %d", i), keys.Fields{Owner: new(fmt.Sprintf("team-%d", i%4)), Active: new(i%100 != 0)})
	}
	s.armed.Store(true)
	b := openKeys(s.site)
	b.waitText("1,000 keys")
	equal(b, `document.querySelectorAll("tbody tr").length`, 50)
	s.send()
	b.waitText("2,301 keys", "1–50 of 2,301")
	s.is.True(eval[int](b, `document.querySelectorAll("*").length`) < 3000)
	b.click("Next page")
	b.waitText("51–100 of 2,301")
	equal(b, texts(".records .name")+"[0]", "Viewer 2249")
	equal(b, `location.hash`, "#/keys?page=2")

	b.chooseOption("Order", "Oldest first")
	b.waitText("1–50 of 2,301")
	equal(b, texts(".records .name")+"[1]", "Viewer 0") // after the key of apitest
	b.fill("Owner", "team-3")
	b.waitText("575 of 2,301 keys")
	b.fill("Search by name, owner, id or scope", "viewer 11")
	b.waitText("29 of 2,301 keys")
	b.fill("Owner", "")
	b.fill("Search by name, owner, id or scope", "#417") // as in a log line
	b.wait(`document.querySelector(".records .name").innerText === "Viewer 415"`)
	b.waitText("ID 417, created ")
	b.fill("Search by name, owner, id or scope", "")
	b.chooseOption("Status", "Inactive")
	b.waitText("23 of 2,301 keys")

	// Changes of many keys, and back.
	b.chooseOption("Order", "Oldest first")
	b.clickNode(`e2e.field("Select Viewer 0")`)
	eval[bool](b, `(e2e.field("Select Viewer 300").dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true })), true)`)
	b.waitText("4 keys selected")
	b.clickNode(`document.querySelector(".selection button:nth-of-type(2)")`)
	b.waitText("4 keys activated.", "19 of 2,301 keys")
	b.undo("23 of 2,301 keys")
	s.is.True(!s.keyNamed("Viewer 300").Active)
	b.click("Delete…")
	b.waitText("Delete 4 keys?")
	b.click("Cancel", "Delete…", "Delete 4 keys")
	b.waitText("4 keys deleted.", "19 of 2,297 keys")
}

func TestKeys_ChangesCanBeUndone(t *testing.T) {
	s := startSite(t)
	s.createKey("Field tablets", keys.Fields{Active: new(false), ExpiresAt: new(s.Clock.Now().AddDate(0, 0, -2))})
	b := openKeys(s)
	b.click("Deactivate apitest")
	b.waitText("is deactivated")
	b.typeKeys("u") // the shortcut
	b.waitText("Undone.")
	s.is.True(s.accepts(string(s.RawKey)))
	b.wait(`document.querySelectorAll(".toast").length === 1`)
	b.click("Dismiss")
	b.wait(`!document.querySelector(".toast")`)

	b.click("More for Field tablets", "Activate")
	b.waitText("it has expired and is still rejected")
	b.click("Extend Field tablets", "30 days", "Save")
	b.waitText("Field tablets changed.")
	b.wait(`e2e.button("Deactivate Field tablets")`)
	found := s.keyNamed("Field tablets")
	s.is.True(found.Active && found.ExpiresAt.After(s.Clock.Now()))
}

// TestKeys_RowsAreOneTabStop moves with the arrow keys in and between rows.
func TestKeys_RowsAreOneTabStop(t *testing.T) {
	s := startSite(t)
	for _, name := range []string{"One", "Two"} {
		s.createKey(name, keys.Fields{})
	}
	b := openKeys(s)
	b.wait(`document.querySelectorAll("tbody tr").length === 3`)
	equal(b, `document.querySelectorAll("tbody [tabindex='0']").length`, 3)
	eval[bool](b, `(document.querySelector("tbody [tabindex='0']").focus(), true)`)
	b.pressThrough([][2]string{
		{kb.Tab, "More for One"}, {kb.ArrowLeft, "Deactivate One"}, {kb.ArrowUp, "Deactivate Two"}, {kb.ArrowLeft, "Two"}, {kb.ArrowLeft, "Select Two"},
		{kb.ArrowLeft, "Select Two"}, {kb.ArrowDown, "Select One"}, {kb.Tab, "More for One"}, {kb.Tab, "More for apitest"},
	})
}

func TestPage_ShortcutsAndSkipLink(t *testing.T) {
	b := openKeys(startSite(t))
	press := func(key, expression string) {
		t.Helper()
		b.typeKeys(key)
		b.wait(expression)
	}
	press("/", `document.activeElement === e2e.field("Search by name, owner, id or scope")`)
	press("n", `document.activeElement.value.endsWith("n")`) // text, no shortcut
	press(kb.Escape, `document.activeElement.value === ""`)
	eval[bool](b, `(document.activeElement.blur(), true)`)
	press("n", `e2e.field("Name")`)
	press(kb.Escape, `!document.querySelector("dialog")`)
	press("4", `document.title.startsWith("Exports")`)
	press("2", `document.title.startsWith("Keys")`)
	press("?", `document.querySelector("dialog")`)
	b.click("Single-key shortcuts")
	press(kb.Escape, `!document.querySelector("dialog")`)
	press("4", `document.title === "Keys · Canvasback"`)

	b.do(reload)
	b.waitText("Admin key required")
	eval[bool](b, `(document.activeElement.blur(), document.getElementById("skip").focus(), true)`)
	b.wait(`document.getElementById("skip").getBoundingClientRect().height > 20`)
	press(kb.Enter, `document.activeElement.id === "title"`)
	equal(b, `location.hash`, "#/keys")
}

func TestPage_MissingKeys(t *testing.T) {
	s := startSite(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	b := openKeys(s)
	b.click("Exports")
	b.fill("Sources", sourceURL("plan"))
	b.click("Download")
	b.waitText("Client key missing")
	b.waitNoText("rejected")
	b.click("Enter the client key")
	b.wait(`e2e.field("Client key")`)
	b.click("Close")

	b.click("Symbols")
	b.waitText("Client key required")
	b.click("Create a client key") // with the admin key
	b.fill("Name", "Console")
	b.click("Create key")
	b.waitText("In use in this console")
	b.copyKey()
	b.waitText("No folders yet")
	s.is.True(s.keyNamed("Console").Active)

	b.click("Exports")
	b.wait(`e2e.field("Sources")`)
	equal(b, `e2e.field("Sources").value`, sourceURL("plan")) // what was entered is kept
	b.click("Download")
	b.waitText("plan.pdf, 8 B, is in your browser's downloads.")
	b.waitNoText("Client key missing") // an earlier error
}

// TestSymbols_ManyFoldersScrollByThemselves has more folders than the window shows.
func TestSymbols_ManyFoldersScrollByThemselves(t *testing.T) {
	s := startSite(t, unprotected)
	for i := range 120 {
		s.folder(fmt.Sprintf("Folder %d", 120-i)) // in reverse
	}
	last := s.folder("Zone", "Gate valve")
	b := openTab(t, s.url+"#/symbols")
	b.wait(`document.querySelectorAll(".side li").length === 121`)
	equal(b, texts(".side li")+".slice(0, 11)", strings.Split("Folder 1,Folder 2,Folder 3,Folder 4,Folder 5,Folder 6,Folder 7,Folder 8,Folder 9,Folder 10,Folder 11", ","))
	equal(b, `document.querySelectorAll(".side li [tabindex='0']").length`, 1)
	b.wait(`document.documentElement.scrollHeight < 2 * innerHeight`)
	b.click("Zone")
	b.wait(`document.querySelector(".tile")?.getBoundingClientRect().top < innerHeight`)
	equal(b, `scrollY`, 0)
	b.fill("Find a folder", "older 11")
	b.wait(`document.querySelectorAll(".side li").length === 11`)
	b.typeKeys(kb.Tab + kb.ArrowDown)
	equal(b, focused, "Folder 110")
	b.typeKeys(kb.Enter)
	b.waitText("This folder is empty")

	b.visit(fmt.Sprintf("%s?#/symbols/%d", s.url, last.ID))
	b.wait(`document.querySelector(".side [aria-current]")?.getBoundingClientRect().top < innerHeight`) // scrolled to
	b.click("Actions for Gate valve", "Move…")
	b.fill("Find a folder", "folder 77")
	b.click("Move")
	b.waitText("Gate valve moved to Folder 77.", "0 symbols")
	b.click("Undo")
	b.waitText("1 symbol\n")
	s.is.Equal(len(s.symbolsIn(last.ID)), 1)
}

func TestSymbols_AreSelectedMovedAndViewed(t *testing.T) {
	s := startSite(t, unprotected)
	valves := s.folder("Valves", "A", "B", "C", "D", "E")
	vents := s.folder("Vents")
	b := openSymbols(s, "5 symbols")
	equal(b, `document.querySelectorAll(".grid [tabindex='0']").length`, 1)
	eval[bool](b, `(document.getElementById("symbol-1").focus(), true)`)
	b.pressThrough([][2]string{
		{kb.ArrowRight, "B"}, {" ", "B"}, {kb.End, "E"}, {kb.ArrowLeft, "D"}, {" ", "D"}, {kb.Home, "A"},
	})
	b.moveSelectedAndUndo(s, vents)
	b.waitText("5 symbols")
	s.is.Equal(len(s.symbolsIn(valves.ID)), 5)

	b.click("B")
	title := func(want string) {
		t.Helper()
		b.wait(`document.querySelector("dialog h2")?.innerText === ` + quote(want) + ` && document.querySelector("dialog img")?.alt === ` + quote(want))
	}
	title("B")
	b.click("Next symbol")
	title("C")
	b.typeKeys(kb.ArrowLeft + kb.ArrowLeft)
	title("A")
	equal(b, `location.hash`, "#/symbols/1/1")
	ground := `getComputedStyle(document.querySelector("dialog .preview")).backgroundColor`
	light := eval[string](b, ground)
	b.click("Dark")
	s.is.True(eval[string](b, ground) != light)
	b.click("Checker")
	s.is.True(strings.Contains(eval[string](b, `getComputedStyle(document.querySelector("dialog .preview")).backgroundImage`), "conic"))
	b.click("More actions", "Copy ID")
	b.waitText("Copied.")
	equal(b, `navigator.clipboard.readText()`, "1")
	b.rename("More actions", "Rename…", "A1")
	title("A1")
	b.click("More actions", "Copy to a folder…")
	eval[bool](b, fmt.Sprintf(`(e2e.field("To folder").value = "%d", true)`, vents.ID))
	b.click("Copy")
	b.waitText("A1 copied to Vents.")
	s.is.Equal(s.symbolsIn(vents.ID)[0].Name, "A1")
	b.click("More actions", "Delete…", "Delete symbol")
	title("B") // the next one
	b.click("Close")
	b.waitFocus(`document.getElementById("symbol-2")`)
	_, err := s.Symbols.GetSymbol(t.Context(), 1)
	s.is.Equal(err, symbols.ErrSymbolNotFound)
}

// TestSymbols_DroppedZipOpensImport imports a file through a proxy that adds a header
// without a value, the last one of the response.
func TestSymbols_DroppedZipOpensImport(t *testing.T) {
	s := startSiteBehind(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Z-Proxy", "")
		return false
	}, unprotected)
	folder := s.folder("Valves")
	b := openSymbols(s, "Import a zip")
	b.dropFiles(`document.querySelector(".notice")`, b.writeFile("more.zip", archive(t, "Ball valve.svg", svgImage)))
	b.waitText("1 symbol will be added to Valves.")
	b.click("Import 1 symbol")
	b.waitText("1 symbol imported into Valves.")
	s.is.Equal(len(s.symbolsIn(folder.ID)), 1)
}

// TestSymbols_RenameReadsNoData renames a symbol without a request for its data.
func TestSymbols_RenameReadsNoData(t *testing.T) {
	s, b := openValves(t, "Gate valve")
	b.rename("Actions for Gate valve", "Rename…", "Slide valve")
	b.waitText("Gate valve renamed.")
	s.is.Equal(b.sent(func(r *network.Request) bool { return r.Method == "GET" && strings.HasSuffix(r.URL, "/symbols/1") }), 0)
}

func TestReference_SearchesAndLinksOperations(t *testing.T) {
	is := is.New(t)
	b := openTab(t, startSite(t).url+"#/api/rotateKey")
	b.wait(`document.querySelector(".operation[open] .command")`)
	equal(b, `document.querySelector(".operation[open]").id`, "api-rotateKey")
	b.fill("Search operations", "folder export")
	b.wait(`[...document.querySelectorAll(".operation")].filter((one) => e2e.shown(one)).length < 4`)
	b.clickNode(`document.querySelector(".operation:not([hidden]) summary")`)
	b.wait(`location.hash.startsWith("#/api/") && location.hash !== "#/api/rotateKey"`)
	is.True(strings.HasSuffix(eval[string](b, `e2e.button("openapi.json").href`), "/api/openapi.json"))
	b.fill("Search operations", "no such thing")
	b.waitText("No operation matches")
}

// TestSymbols_OpenOutsideOfTheList opens a symbol that the filter does not match.
func TestSymbols_OpenOutsideOfTheList(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("Valves", "Gate valve", "Ball valve")
	b := openTab(t, s.url+"#/symbols/1/2?filter=gate")
	b.waitText("1 of 2 symbols", "40 × 20")
	b.typeKeys(kb.ArrowRight)
	equal(b, `document.querySelector("dialog h2").innerText`, "Ball valve")
}

// TestSymbols_NamesOfManyEmoji renames a symbol with a name of 200 characters, which are
// 400 code units.
func TestSymbols_NamesOfManyEmoji(t *testing.T) {
	name := strings.Repeat("\U0001F600", 200)
	_, b := openValves(t, name)
	b.click("Actions for "+name, "Rename…")
	b.typeKeys(kb.End + kb.Backspace + kb.Enter)
	b.waitText(name + " renamed.")
}
