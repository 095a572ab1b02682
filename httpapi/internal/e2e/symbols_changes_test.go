package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"

	"example.com/canvasback/symbols"
)

// names returns the names of symbols.
func names(list []symbols.Symbol) (names []string) {
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names
}

// selectSymbols selects symbols of the grid by id.
func (b *tab) selectSymbols(ids ...int) {
	b.t.Helper()
	for _, id := range ids {
		eval[bool](b, fmt.Sprintf(`(document.querySelector("#tile-%d input").click(), true)`, id))
	}
}

func TestSymbols_DeletedAreRestored(t *testing.T) {
	s, b := openValves(t, "Gate valve", "Ball valve", "Gate valve", "Check valve")
	before := s.symbolsIn(1)
	undone := func(text string) {
		t.Helper()
		b.waitText(text)
		b.undo("4 symbols")
		after := s.symbolsIn(1)
		s.is.Equal(len(after), len(before))
		for i, one := range after {
			s.is.Equal([]any{one.ID, one.Name, one.Data}, []any{before[i].ID, before[i].Name, before[i].Data})
		}
		b.click("Dismiss")
		b.waitNoText("Undone.")
	}
	b.click("Actions for Check valve", "Delete…", "Delete symbol")
	b.waitText("3 symbols")
	undone("Check valve deleted.")
	b.selectSymbols(1, 3, 4) // two of one name
	b.waitText("3 symbols selected")
	b.clickSelection("Delete…")
	b.click("Delete 3 symbols")
	b.waitText("1 symbol")
	undone("3 symbols deleted.")
	b.click("Folder actions", "Delete folder…", "Delete folder and 4 symbols")
	b.waitText("No folders yet")
	undone("Valves deleted.")
}

func TestSymbols_TrashIsShown(t *testing.T) {
	s, b := openValves(t, "Gate valve", "Ball valve")
	b.click("Folder actions", "Trash…")
	b.waitText("The trash is empty")
	b.click("Close")
	for _, name := range []string{"Gate valve", "Ball valve"} {
		b.click("Actions for "+name, "Delete…", "Delete symbol")
		b.waitText(name + " deleted.")
	}
	b.waitText("This folder is empty")
	b.click("Folder actions", "Trash…")
	b.waitText("Symbol of Valves, deleted just now")
	equal(b, texts(".trash b"), []string{"Ball valve", "Gate valve"}) // the latest first
	b.click("Restore Gate valve")
	b.waitText("Gate valve restored.", "1 symbol")
	s.is.Equal(names(s.symbolsIn(1)), []string{"Gate valve"})
	b.click("Delete Ball valve permanently", "Delete permanently")
	b.waitText("Ball valve deleted permanently.")
	b.wait(`!document.querySelector(".trash li")`)
	b.click("Close")
	b.click("Folder actions", "Trash…")
	b.waitText("The trash is empty")
}

func TestSymbols_PictureIsReplaced(t *testing.T) {
	s, b := openValves(t, "Gate valve")
	before := s.symbolsIn(1)[0]
	path := b.writeFile("New drawing.png", pngImage(3, 2))
	b.dropFiles(`document.getElementById("tile-1")`, path)
	b.waitText("Replace the picture of Gate valve?", "New drawing.png")
	b.wait(`[...document.querySelectorAll(".before-after img")].map((image) => image.naturalWidth).join() === "40,3"`)
	b.click("Replace")
	b.waitText("The picture of Gate valve is replaced.")
	b.wait(`document.querySelector("#tile-1 img")?.naturalWidth === 3`)
	after, data := s.pictureIn(1, 0)
	s.is.Equal([]any{after.ID, after.Name, after.Type}, []any{before.ID, before.Name, "image/png"})
	s.is.Equal(data, picture{"Gate valve", "image/png", pngImage(3, 2), 3, 2})
	b.undo()
	b.wait(`document.querySelector("#tile-1 img")?.naturalWidth === 40`)
	again := s.symbolsIn(1)[0]
	s.is.Equal([]any{again.Type, again.Data}, []any{before.Type, before.Data})

	b.dropFiles(`document.getElementById("tile-1")`, path)
	b.waitText("Replace the picture of Gate valve?")
	b.clickNode(`e2e.field("Add it as a new symbol instead")`)
	b.click("Replace")
	b.waitText("1 symbol added to Valves.", "2 symbols")
	s.is.Equal(names(s.symbolsIn(1)), []string{"Gate valve", "New drawing"})
	b.dropFiles(`document.getElementById("tile-1")`, b.writeFile("broken.png", []byte("no image")))
	b.waitText("The browser cannot decode the image.")
	b.click("Dismiss")

	b.clickNode(`document.getElementById("symbol-1")`)
	b.waitText("40 × 20")
	b.click("More actions", "Copy as SVG")
	b.wait(`navigator.clipboard.readText().then((text) => text === ` + quote(svgImage) + `)`)
	b.click("More actions", "Copy as data URL")
	b.wait(`navigator.clipboard.readText().then((text) => text.startsWith("data:image/svg+xml;base64,"))`)
}

// TestSymbols_BrokenPictureOnOpenSymbol drops a file on a dialog, which covers the list.
func TestSymbols_BrokenPictureOnOpenSymbol(t *testing.T) {
	_, b := openValves(t, "Gate valve")
	b.click("Gate valve")
	b.waitText("40 × 20")
	b.dropFiles(`document.querySelector("dialog .preview")`, b.writeFile("broken.png", []byte("text")))
	b.wait(`document.querySelector("dialog")?.innerText.includes("The browser cannot decode the image.")`)
}

func TestSymbols_TagsAreChanged(t *testing.T) {
	s, b := openValves(t, "Gate valve", "Ball valve")
	tags := func() (all []string) {
		for _, one := range s.symbolsIn(1) {
			all = append(all, strings.Join(one.Tags.List(), "+"))
		}
		return all
	}
	b.changeTags("Gate valve", "brass\npumps, centrifugal\n")
	b.waitText("Tags of Gate valve changed.")
	b.click("Actions for Gate valve", "Tags…", "Save")
	b.wait(`!document.querySelector("dialog")`)
	s.is.Equal(tags(), []string{"brass+pumps, centrifugal", ""})
	b.undo()
	s.is.Equal(tags(), []string{"", ""})
	b.selectSymbols(1, 2)
	b.waitText("2 symbols selected")
	for _, change := range []struct{ field, tags, want string }{{"Add", "steel\nbrass", "steel+brass"}, {"Remove", "brass", "steel"}} {
		b.click("Tag…")
		b.fill(change.field, change.tags)
		b.click("Save")
		b.waitFor(func() bool { return slices.Equal(tags(), []string{change.want, change.want}) }, "the change of the tags")
		b.wait(`!document.querySelector("dialog")`)
	}
	b.waitText("Tags of 2 symbols changed.")
}

// TestSymbols_ShowsChangesByOthers receives them with a page token, and keeps what is
// shown until the user wants them.
func TestSymbols_ShowsChangesByOthers(t *testing.T) {
	s := startSite(t)
	valves := s.folder("Valves", "Gate valve", "Ball valve")
	b := openWithClientKey(s, "symbols")
	b.waitText("2 symbols")
	b.rename("Actions for Gate valve", "Rename…", "Mine")
	b.waitText("Gate valve renamed.")
	s.symbol(valves.ID, "Check valve", "image/svg+xml", svgImage)
	b.waitText("2 symbols, changed by others")
	equal(b, texts(".tile .name"), []string{"Mine", "Ball valve"})
	b.click("Show changes")
	b.waitText("3 symbols\n")
	b.wait(`!e2e.button("Show changes")`)
	equal(b, texts(".tile .name"), []string{"Mine", "Ball valve", "Check valve"})
}

// TestSymbols_StateIsInTheURL opens URLs of a filtered list and of no folder.
func TestSymbols_StateIsInTheURL(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("Pumps")
	s.folder("Valves", "Gate valve", "Ball valve")
	b := openTab(t, s.url+"#/symbols/2?filter=gate&ground=Dark")
	b.waitText("1 of 2 symbols")
	equal(b, `document.documentElement.dataset.plate + e2e.field("Filter by name or type").value`, "Darkgate")
	b.fill("Filter by name or type", "valve")
	b.waitText("2 symbols\n")
	b.click("Ball valve", "Checker", "Close")
	b.wait(`location.hash === "#/symbols/2?filter=valve&ground=Checker"`)
	eval[bool](b, `(location.hash = "#/symbols/99", true)`)
	b.waitText("There is no folder 99")
	b.click("Open the first folder")
	b.waitText("This folder is empty")
}

// openUploadSite opens an empty folder of a site that responds to the second upload with
// fail, and returns the number of uploads so far.
func openUploadSite(t *testing.T, fail http.HandlerFunc) (*site, *tab, *atomic.Int64) {
	uploads := new(atomic.Int64)
	s := startSiteBehind(t, func(w http.ResponseWriter, r *http.Request) (done bool) {
		if done = strings.HasSuffix(r.URL.Path, "/import") && uploads.Add(1) == 2; done {
			fail(w, r)
		}
		return done
	}, unprotected)
	s.folder("Valves")
	return s, openSymbols(s, "This folder is empty"), uploads
}

// TestSymbols_ManyFilesNeedFewRequests adds as many files as a team has, while the server
// once asks to wait.
func TestSymbols_ManyFilesNeedFewRequests(t *testing.T) {
	s, b, uploads := openUploadSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"message":"too many requests","code":"too_many_requests"}`, http.StatusTooManyRequests)
	})
	var paths []string
	for i := range 450 {
		paths = append(paths, b.writeFile(fmt.Sprintf("Välve %03d.png", i), pngImage(1+i, 1)))
	}
	b.chooseFiles(`document.querySelector("input[type=file][multiple]")`, paths...)
	b.waitText("the server asks to wait 1 s")
	b.waitText("450 symbols added to Valves.", "450 symbols")
	s.is.Equal(uploads.Load(), int64(4))
	list := s.symbolsIn(1)
	s.is.Equal(len(list), 450)
	s.is.Equal(list[449].Name, "Välve 449")
	b.undo("This folder is empty")
	s.is.Equal(len(s.symbolsIn(1)), 0)
}

// TestSymbols_FailedUploadAndFileLeftOut adds more files than one request has.
func TestSymbols_FailedUploadAndFileLeftOut(t *testing.T) {
	_, b, _ := openUploadSite(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"the disk is full"}`, http.StatusInternalServerError)
	})
	paths := []string{b.writeFile("notes.txt", []byte("text"))}
	for i := range 210 {
		paths = append(paths, b.writeFile(fmt.Sprintf("%03d.png", i), pngImage(1, 1)))
	}
	b.chooseFiles(`document.querySelector("input[type=file][multiple]")`, paths...)
	b.waitText("1 of 211 left out", "1 of 2 failed", "the disk is full", "199 symbols")
}

// TestSymbols_WaitingActionIsCanceled cancels a deletion in the dialog that has started it.
func TestSymbols_WaitingActionIsCanceled(t *testing.T) {
	s, b := openValves(t, "Gate valve", "Ball valve")
	unavailable := problem("not available", "unavailable", "r")
	s.failure.Store(&failure{part: "/symbols/delete", status: 503, body: unavailable, retry: "3600"})
	b.selectSymbols(1, 2)
	b.clickSelection("Delete…")
	b.click("Delete 2 symbols")
	b.waitText("the server asks to wait 3600 s")
	b.clickNode(`[...document.querySelectorAll(".panel button")].find((one) => one.innerText === "Cancel")`)
	b.wait(`!document.querySelector("dialog")`)
	b.waitText("2 symbols selected")
}

// TestSymbols_ScreenIsLoadedOnDemand loses the code of the screen once.
func TestSymbols_ScreenIsLoadedOnDemand(t *testing.T) {
	s := startSite(t, unprotected)
	s.failOnce("/symbols.js")
	s.folder("Valves", "Gate valve")
	b := openTab(t, s.url)
	b.waitText("Admin key required")
	s.is.True(!s.hasFailed())
	b.click("Symbols")
	b.waitText("Page error")
	b.click("Retry")
	b.waitText("Gate valve")
	b.click("Overview", "Symbols")
	b.waitText("Gate valve")
	s.is.Equal(b.sent(func(r *network.Request) bool { return strings.Contains(r.URL, "/symbols.js") }), 2)
}

func TestSymbols_CopiesKeepTagsAndMetadata(t *testing.T) {
	s := startSite(t, unprotected)
	folder := s.folder("Valves")
	tags := s.tags("red")
	const meta = `{"part":12345678901234567890,"scale":1.0,"10":1,"9":2}` // JSON.parse changes it
	_, err := s.Symbols.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "Gate", Type: "text/plain", Data: "x", Tags: tags, Meta: meta})
	s.is.NoErr(err)
	b := openSymbols(s, "1 symbol")
	b.click("Actions for Gate", "Copy to a folder…", "Copy")
	b.waitText("copied to Valves", "2 symbols")
	symbol, err := s.Symbols.GetSymbol(t.Context(), 2)
	s.is.NoErr(err)
	s.is.Equal(symbol.Tags, tags)
	s.is.Equal(symbol.Meta, meta)
}

// TestSymbols_UploadsAtOnce adds a file while another one is being added, which can still be
// canceled.
func TestSymbols_UploadsAtOnce(t *testing.T) {
	_, b, _ := openUploadSite(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for _, name := range []string{"Gate.png", "Ball.png", "Check.png"} {
		b.chooseFiles(`document.querySelector("input[type=file][multiple]")`, b.writeFile(name, pngImage(1, 1)))
		b.waitText(name)
	}
	b.waitText("2 symbols")
	b.click("Cancel")
	b.wait(`!document.querySelector(".panel")`)
}

// TestSymbols_ServerIsUpgraded loads the code of the screen from a newer server than the page.
func TestSymbols_ServerIsUpgraded(t *testing.T) {
	pages := new(atomic.Int64)
	s := startSiteBehind(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" {
			pages.Add(1)
		}
		if r.URL.Path != "/symbols.js" || pages.Load() > 1 {
			return false
		}
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, `import { added } from "./main.js";`)
		return true
	}, unprotected)
	s.folder("Valves", "Gate valve")
	b := openTab(t, s.url+"#/symbols")
	b.waitText("Page error")
	b.click("Retry")
	b.waitText("Gate valve")
}
