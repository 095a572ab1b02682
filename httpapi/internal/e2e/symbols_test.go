package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// unprotected disables client keys.
func unprotected(o *httpapi.Options) { o.DangerouslySkipClientKeys = true }

// A key that lacks a scope is still in use on other screens.
func TestSymbols_KeepTheKeyWithoutScope(t *testing.T) {
	s := startSite(t)
	s.updateKey(keys.Fields{Scopes: new(s.scopes("exports:read"))})
	b := openSymbols(s, "Client key required")
	b.wait(`![...document.querySelectorAll("main button")].some((one) => one.innerText === "Show more" && one.offsetParent)`)
	b.enterKey("Client key", string(s.RawKey))
	b.waitText("lacks the scope symbols:read")
	b.do(chromedp.Navigate(s.url + "#/exports"))
	b.waitText("Exports")
	b.wait(`!document.body.innerText.includes("Client key missing")`)
}

// TestSymbols_FitPhones opens folders with names that do not wrap.
func TestSymbols_FitPhones(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("A", "Gate valve")
	for _, name := range []string{"صمامات التحكم الصناعية الكبيرة", strings.Repeat("配管記号", 5), strings.Repeat("x", 200)} {
		s.folder(name, "Gate valve")
	}
	b := openTab(t, s.url+"#/symbols")
	for folder := 1; folder <= 4; folder++ {
		b.do(chromedp.Navigate(s.url + fmt.Sprint("#/symbols/", folder)))
		b.waitText("1 symbol")
		for _, width := range []int64{390, 320} {
			b.resize(width, 700)
			b.wait(`document.documentElement.scrollWidth <= innerWidth`)
		}
	}
}

func TestSymbols_FoldersAreCreatedRenamedAndDeleted(t *testing.T) {
	s := startSite(t, unprotected)
	b := openSymbols(s, "No folders yet")
	b.clickNode(`document.querySelector(".notice button")`)
	b.fill("Name", "Valves")
	b.click("Create folder")
	b.waitText("This folder is empty")
	equal(b, `location.hash`, "#/symbols/1")

	b.createFolder("Valves")
	b.waitText("Name is taken by another folder.")
	b.fill("Name", "Vents")
	b.click("Create folder")
	b.wait(`location.hash === "#/symbols/2" && document.title === "Symbols · Canvasback"`)

	b.rename("Folder actions", "Rename folder…", "Vents & fans")
	b.wait(`document.getElementById("title").innerText === "Vents & fans"`)
	b.click("Valves")
	b.wait(`document.getElementById("title").innerText === "Valves"`)
	equal(b, focused, "Valves") // the link keeps the focus
	b.do(reload)
	b.wait(`document.getElementById("title").innerText === "Valves"`)

	b.click("Folder actions", "Delete folder…")
	b.waitText("The folder is empty.")
	b.click("Delete folder")
	b.waitText("Valves deleted.")
	b.waitFocus(`document.getElementById("title")`)
	list, err := s.Symbols.ListFolders(t.Context(), symbols.Range{})
	s.is.NoErr(err)
	s.is.Equal(len(list.Folders), 1)
	s.is.Equal(list.Folders[0].Name, "Vents & fans")
}

// TestSymbols_PicturesAreLoadedAfterAnOutage requires tiles to load again what failed.
func TestSymbols_PicturesAreLoadedAfterAnOutage(t *testing.T) {
	s := startSite(t, unprotected)
	s.failure.Store(&failure{part: "/image", status: 503, body: "{}"})
	s.folder("Valves", "Gate valve", "Ball valve")
	b := openSymbols(s, "2 symbols")
	b.ignoreProblem("503")
	b.wait(`performance.getEntriesByType("resource").filter(({ name }) => name.includes("/image")).length >= 4`)
	time.Sleep(200 * time.Millisecond)
	s.failure.Store(nil)
	b.wait(`[...document.querySelectorAll(".preview img")].filter((image) => image.naturalWidth === 40).length === 2`)
}

func TestSymbols_AreShownRenamedMovedAndDeleted(t *testing.T) {
	s := startSite(t, unprotected)
	valves := s.folder("Valves", "Gate valve", "Ball valve", "Check valve")
	pumps := s.folder("Vents")
	s.symbol(valves.ID, "A note", "text/plain", "not a picture")
	s.symbol(valves.ID, "Bare drawing", "image/svg+xml", svgImage)
	b := openSymbols(s, "5 symbols")
	b.wait(`document.querySelectorAll(".preview img").length === 4 && [...document.querySelectorAll(".preview img")].every((image) => image.naturalWidth === 40)`)
	b.wait(`[...document.querySelectorAll(".preview img")].every((image) => new URL(image.src).pathname.endsWith("/image"))`) // the browser caches them
	b.waitText("not a picture")

	b.click("Gate valve")
	b.waitText("40 × 20")
	equal(b, `location.hash`, "#/symbols/1/1")
	b.do(reload)
	b.waitText("40 × 20") // the URL is kept
	b.click("Download")
	s.is.Equal(string(b.downloaded("Gate valve.svg")), svgImage)
	b.click("Close")
	b.waitFocus(`document.getElementById("symbol-1")`)
	equal(b, `location.hash`, "#/symbols/1")

	b.fill("Filter by name or type", "BALL")
	b.waitText("1 of 5 symbols")
	b.fill("Filter by name or type", "no such thing")
	b.waitText("No symbol matches")
	b.fill("Filter by name or type", "image/")
	b.waitText("4 of 5 symbols")
	b.fill("Filter by name or type", "")
	eval[any](b, `document.getElementById("tile-2").old = true`)
	b.click("Reload")
	b.waitFocus(`document.getElementById("reload")`)
	b.wait(`document.getElementById("tile-2").old`) // what has not changed stays

	b.rename("Actions for Ball valve", "Rename…", "Globe valve")
	b.waitFocus(`e2e.button("Actions for Globe valve")`)

	b.click("Actions for Globe valve", "Move…", "Move")
	b.waitText("Globe valve moved to Vents.")
	b.waitFocus(`document.getElementById("symbol-3")`)
	b.waitText("4 symbols")
	s.is.Equal(s.symbolsIn(pumps.ID)[0].Name, "Globe valve")

	b.drag(`document.getElementById("symbol-3")`, `document.getElementById("folder-2")`)
	b.waitText("Check valve moved to Vents.", "3 symbols")
	s.is.Equal(len(s.symbolsIn(pumps.ID)), 2)

	b.click("Actions for Gate valve", "Delete…", "Delete symbol")
	b.waitText("Gate valve deleted.")
	b.waitFocus(`document.getElementById("symbol-4")`)
	s.is.Equal(len(s.symbolsIn(valves.ID)), 2)

	b.click("Folder actions", "Delete folder…")
	b.waitText("can be restored from the trash")
	b.click("Delete folder and 2 symbols")
	b.wait(`document.getElementById("title").innerText === "Vents"`)
}

func TestSymbols_ImagesAreAdded(t *testing.T) {
	s := startSite(t, unprotected)
	folder := s.folder("Valves")
	other := s.folder("Vents")
	b := openSymbols(s, "This folder is empty")
	unsized := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 12"><path d="M0 0h24"/></svg>`
	b.chooseFiles(`document.querySelector("input[type=file][multiple]")`,
		b.writeFile("two by one.png", pngImage(2, 1)), b.writeFile("notes.txt", []byte("text")), b.writeFile("unsized.svg", []byte(unsized)), b.writeFile("broken.png", []byte("no")))
	b.waitText("Adding to Valves: 2 of 4 left out", "notes.txt: documentation")
	b.waitText("broken.png: not a picture", "2 symbols")
	b.click("Dismiss")
	b.waitNoText("2 of 4 left out")

	for i, want := range []picture{{"two by one", "image/png", pngImage(2, 1), 2, 1}, {"unsized", "image/svg+xml", []byte(unsized), 24, 12}} {
		symbol, got := s.pictureIn(folder.ID, i)
		s.is.Equal(got, want)
		s.is.Equal(symbol.Name, want.Name)
		s.is.Equal(symbol.Type, want.Type)
	}

	b.dropFiles(`document.querySelector(".grid")`, t.TempDir(), b.writeFile("dropped.png", pngImage(3, 3))) // a directory cannot be read
	b.waitText("Adding to Valves: 1 of 2 left out", "3 symbols")
	b.dropFiles(`document.getElementById("folder-2")`, b.writeFile("elsewhere.png", pngImage(3, 3)))
	b.waitText("1 symbol added to Vents.")
	s.is.Equal(s.symbolsIn(other.ID)[0].Name, "elsewhere")
	b.dropFilesAt(b.pointOf("clickPoint", `document.querySelector(".bar")`), b.writeFile("nowhere.png", pngImage(3, 3))) // ignored
	s.is.Equal(len(s.symbolsIn(folder.ID)), 3)
	b.click("Vents")
	b.waitText("elsewhere")
}

// TestSymbols_PictureIsLoadedAgain fails the first request for a picture.
func TestSymbols_PictureIsLoadedAgain(t *testing.T) {
	s := startSite(t, unprotected)
	s.failOnce("/image")
	s.folder("Valves", "Gate valve")
	b := openTab(t, s.url+"#/symbols")
	b.wait(`document.querySelector(".tile img")?.naturalWidth === 40`)
}

func TestSymbols_ReportsImageAboveLimit(t *testing.T) {
	s := startSite(t, unprotected, func(o *httpapi.Options) { o.Limits.Symbol = 4000 })
	s.folder("Valves")
	b := openSymbols(s, "This folder is empty")
	large := strings.Replace(svgImage, "<path", "<!--"+strings.Repeat("x", 4000)+"--><path", 1)
	b.chooseFiles(`document.querySelector("input[type=file][multiple]")`, b.writeFile("large.svg", []byte(large)), b.writeFile("small.svg", []byte(svgImage)))
	b.waitText("large.svg: too large", "1 symbol")
}

// TestSymbols_ReportsConcurrentChange changes symbols that the page shows.
func TestSymbols_ReportsConcurrentChange(t *testing.T) {
	var mu sync.Mutex
	var conditions []string
	beforeChange := func() {} // runs between the GET and the change
	s := startSiteBehind(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != "GET" && r.Method != "HEAD" {
			mu.Lock()
			conditions = append(conditions, r.Header.Get("If-Match"))
			mu.Unlock()
			beforeChange()
		}
		return false
	}, unprotected)
	folder := s.folder("Valves", "Gate valve", "Ball valve")
	b := openSymbols(s, "2 symbols")

	s.renameSymbol(1, "Slide valve") // before the GET
	b.click("Actions for Gate valve", "Delete…", "Delete symbol")
	b.waitText("Changed by someone else", "Slide valve\tDeleted")
	b.click("Keep theirs")
	b.wait(`e2e.button("Slide valve")`)
	s.is.Equal(len(s.symbolsIn(folder.ID)), 2)

	beforeChange = func() {
		beforeChange = func() {}
		s.renameSymbol(2, "Globe valve")
	}
	b.rename("Actions for Ball valve", "Rename…", "Mine")
	b.waitText("Changed by someone else", "Globe valve\tMine") // both are shown
	b.click("Keep theirs")
	b.wait(`e2e.button("Globe valve")`)
	s.renameSymbol(2, "Needle valve")
	b.rename("Actions for Globe valve", "Rename…", "Mine")
	b.click("Use mine")
	b.wait(`e2e.button("Mine")`)

	b.do(reload) // ends the reload after the conflict
	b.waitText("Slide valve")
	s.renameSymbol(1, "Third valve")
	b.changeTags("Slide valve", "brass")
	b.waitText("Tags of Slide valve changed.") // of other fields: both changes stay
	b.wait(`e2e.button("Third valve")`)
	s.renameSymbol(1, "Fourth valve") // after a change by this page, which knows the tag of that
	b.changeTags("Third valve", "brass, red")
	b.waitText("Tags of Third valve changed.")
	s.updateSymbol(1, symbols.SymbolFields{Tags: new(s.tags("steel"))})
	b.clickNode(`window.undo = [...document.querySelectorAll(".undo")].pop()`) // has no dialog
	b.waitText("Keep which change?", "steel")
	b.click("Keep theirs")
	b.wait(`!undo.isConnected`)
	s.is.True(!eval[bool](b, `e2e.text().includes("Undone.")`))
	s.is.Equal(s.symbolsIn(folder.ID)[0].Tags.List(), []string{"steel"})

	s.is.NoErr(s.Symbols.DeleteSymbol(t.Context(), 1, symbols.Any, 0))
	b.click("Actions for Fourth valve", "Delete…", "Delete symbol")
	b.waitText("No such symbol.")
	b.click("Cancel")
	b.waitText("1 symbol")
	mu.Lock()
	defer mu.Unlock()
	s.is.Equal(len(conditions), 7) // a change found by the GET is not sent
	for _, condition := range conditions {
		s.is.True(strings.HasPrefix(condition, `"`))
	}
}

// TestSymbols_FolderIsDeletedElsewhere changes a symbol of a folder that has gone.
func TestSymbols_FolderIsDeletedElsewhere(t *testing.T) {
	s := startSite(t, unprotected)
	valves, _ := s.folder("Valves", "Gate valve"), s.folder("Pumps")
	b := openTab(t, fmt.Sprintf("%s#/symbols/%d", s.url, valves.ID))
	b.waitText("1 symbol")
	s.is.NoErr(s.Symbols.DeleteFolder(t.Context(), valves.ID, symbols.Any, 0))
	b.rename("Actions for Gate valve", "Rename…", "Mine")
	b.waitText("No such symbol.")
	b.click("Cancel")
	b.waitText("There is no folder 1")
	equal(b, `document.querySelectorAll(".tile").length`, 0)
}

// TestSymbols_UndoAfterConflict takes back changes that have replaced those of someone else.
func TestSymbols_UndoAfterConflict(t *testing.T) {
	s, b := openValves(t, "Gate valve")
	undo := func(theirs string) {
		t.Helper()
		b.waitText("Changed by someone else")
		b.click("Use mine")
		b.undo("1 symbol")
		s.is.Equal(s.symbolsIn(1)[0].Name, theirs)
		b.click("Dismiss")
		b.waitNoText("Undone.")
	}
	s.renameSymbol(1, "Theirs")
	b.rename("Actions for Gate valve", "Rename…", "Mine")
	undo("Theirs")
	s.renameSymbol(1, "Theirs again")
	b.click("Actions for Theirs", "Delete…", "Delete symbol")
	undo("Theirs again")
}

// TestSymbols_DoNotRunScripts has symbols with scripts in every place.
func TestSymbols_DoNotRunScripts(t *testing.T) {
	s := startSite(t, unprotected)
	folder := s.folder("Scripts")
	script := `<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xhtml" width="40" height="20" onload="top.ran=1">` +
		`<script>top.ran=1;parent.ran=1;alert(1);fetch("http://203.0.113.1/")</script><script href="http://203.0.113.1/x.js"/>` +
		`<image href="http://203.0.113.1/x.png" width="9" height="9" onerror="top.ran=1"/><foreignObject width="9" height="9"><x:img src="x" onerror="top.ran=1"/>` +
		`<x:iframe src="javascript:top.ran=1"/></foreignObject><animate onbegin="top.ran=1" attributeName="x" dur="1s"/>` +
		`<a href="javascript:top.ran=1"><rect width="40" height="20"/></a></svg>`
	for name, data := range map[string]string{
		"wrapped":                 imageData("wrapped", "image/svg+xml", script),
		"bare":                    script,
		"data URL":                `{"content":` + quote("data:image/svg+xml,"+url.PathEscape(script)) + `}`,
		"SVG text as content":     `{"type":"image/svg+xml","content":` + quote(script) + `}`,
		"HTML with an image type": imageData("p", "image/svg+xml", `<html><script>top.ran=1</script></html>`),
		"HTML":                    imageData("p", "text/html", `<script>top.ran=1</script>`),
		"markup":                  `<img src=x onerror="top.ran=1"><script>top.ran=1</script>`,
		"JSON of wrong types":     `{"content":{"a":1},"type":["image/svg+xml"],"width":{"toString":1},"height":"x"}`,
		"sizes of wrong types":    strings.Replace(imageData("p", "image/svg+xml", svgImage), `"width":40`, `"width":{"toString":1}`, 1),
		"a number":                `5`,
		"null":                    `null`,
		"invalid base64":          `{"type":"image/png","content":"***"}`,
		"a URL":                   `{"type":"image/png","content":"http://203.0.113.1/x.png"}`,
	} {
		s.symbol(folder.ID, name, "image/svg+xml", data)
	}
	s.symbol(folder.ID, `<img src=x onerror="top.ran=1">`, "image/png", "x")
	s.folder(`<script>top.ran=1</script>`)
	b := openTab(t, s.url+"#/symbols/1")
	b.waitText("14 symbols")
	b.wait(`[...document.querySelectorAll(".preview")].every((plate) => plate.childNodes.length && (!plate.querySelector("img") || plate.querySelector("img").complete))`)
	s.is.True(eval[int](b, `document.querySelectorAll(".preview img").length`) >= 4) // drawings are shown
	names := eval[[]string](b, `[...document.querySelectorAll(".tile .name")].map((node) => node.innerText)`)
	for _, name := range names {
		b.click(name)
		b.wait(`document.querySelector("dialog .preview")?.childNodes.length && document.querySelector("dialog img")?.complete !== false`)
		b.click("Close")
	}
	equal(b, `"ran" in window`, false)
	equal(b, `document.querySelectorAll("main script, main iframe, main object, main embed, main svg:not(.icon)").length`, 0)
}

// TestSymbols_LeavingCancelsImages leaves the screen while all connections of the
// browser to the server wait for images.
func TestSymbols_LeavingCancelsImages(t *testing.T) {
	var blocking atomic.Bool
	var started, canceled atomic.Int64
	s := startSiteBehind(t, func(_ http.ResponseWriter, r *http.Request) (blocked bool) {
		if blocked = strings.HasSuffix(r.URL.Path, "/image") && blocking.Load(); blocked {
			started.Add(1)
			<-r.Context().Done()
			canceled.Add(1)
		}
		return blocked
	}, unprotected)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("Valve %d", i+1))
	}
	s.folder("Valves", names...)
	blocking.Store(true)
	b := openTab(t, s.url+"#/symbols")
	const connections = 5 // besides that of the changes
	b.waitFor(func() bool { return started.Load() == connections }, "requests on all connections")
	b.click("Overview")
	b.waitText("1 folder")
	// Queued ones that took the place of canceled ones are canceled, too.
	b.waitFor(func() bool { return canceled.Load() == started.Load() }, "all requests to be canceled")

	blocking.Store(false)
	b.click("Symbols")
	b.wait(`document.querySelectorAll(".tile img").length === 30`)
}

func TestSymbols_RendersThousandsLazily(t *testing.T) {
	s := startSite(t, unprotected)
	folder := s.folder("Many")
	for i := range 2000 {
		s.symbol(folder.ID, fmt.Sprintf("Symbol %d", i+1), "image/svg+xml", imageData("s", "image/svg+xml", svgImage))
	}
	b := openSymbols(s, "2,000 symbols")
	for _, y := range []string{"0", "document.documentElement.scrollHeight", "9000"} {
		// The window is full of tiles in the frame after it is scrolled, and few others exist.
		got := eval[[]int](b, `new Promise((done) => {
			scrollTo(0, `+y+`);
			requestAnimationFrame(() => setTimeout(() => {
				const shown = [...document.querySelectorAll(".tile")].map((tile) => tile.getBoundingClientRect()).filter(({ bottom, top }) => bottom > 300 && top < innerHeight - 100);
				done([shown.length, document.querySelectorAll(".tile").length]);
			}));
		})`)
		s.is.True(got[0] >= 5)
		s.is.True(got[1] < 150)
		b.wait(`[...document.querySelectorAll(".preview")].filter((plate) => plate.getBoundingClientRect().bottom > 0 && plate.getBoundingClientRect().top < innerHeight).every((plate) => plate.querySelector("img"))`)
	}
	// While the page is scrolled, at most one picture begins to load in a frame.
	pictures := eval[int](b, `new Promise((done) => {
		const found = new Set();
		const look = (frames) => {
			for (const { src } of document.querySelectorAll(".preview img")) found.add(src);
			if (!frames) return done(found.size - before);
			scrollBy(0, 120);
			requestAnimationFrame(() => look(frames - 1));
		};
		const before = document.querySelectorAll(".preview img").length;
		look(50);
	})`)
	s.is.True(pictures <= 50)
	b.fill("Filter by name or type", "Symbol 1999")
	b.waitText("1 of 2,000 symbols")
	b.click("Actions for Symbol 1999", "Delete…", "Delete symbol")
	b.waitText("No symbol matches")
	b.fill("Filter by name or type", "")
	b.waitText("1,999 symbols")
}

// TestSymbols_LinkReplacesOpenSymbol opens the URLs of symbols one after the other.
func TestSymbols_LinkReplacesOpenSymbol(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("Valves", "Gate valve", "Ball valve")
	s.folder("Vents", "Fan")
	b := openSymbols(s, "2 symbols")
	for _, c := range [][2]string{{"#/symbols/1/1", "Gate valve"}, {"#/symbols/1/2", "Ball valve"}, {"#/symbols/2/3", "Fan"}} {
		b.visit(s.url + c[0])
		equal(b, texts("dialog h2"), []string{c[1]})
		equal(b, `location.hash`, c[0])
	}
	b.visit(s.url + "#/keys")
	b.waitText("Admin key required")
	equal(b, texts("dialog h2"), []string{})
}

func TestSymbols_AreFoundInAllFolders(t *testing.T) {
	s := startSite(t, unprotected)
	valves := s.folder("Valves", "Gate valve", "Ball valve", "GATE")
	pumps := s.folder("Vents", "Pump", "Tailgate 100%")
	b := openTab(t, s.url+"#/symbols/2")
	b.waitText("2 symbols")
	b.fill("Search all folders", "gate")
	b.waitText("3 symbols")
	b.wait(`[...document.querySelectorAll(".preview img")].filter((image) => image.naturalWidth === 40).length === 3`)
	equal(b, `[...document.querySelectorAll(".tile .hint")].map((node) => node.innerText)`, []string{"Valves", "Valves", "Vents"})
	equal(b, focused, "Search all folders")
	b.do(reload)
	b.waitText("3 symbols") // the URL is kept

	b.rename("Actions for GATE", "Rename…", "Gateway")
	b.waitText("Gateway")
	b.drag(`document.getElementById("symbol-3")`, `document.getElementById("folder-2")`)
	b.waitText("Gateway moved to Vents.")
	b.wait(`document.querySelector("#tile-3 .hint").innerText === "Vents"`)
	s.is.Equal(len(s.symbolsIn(pumps.ID)), 3)
	b.click("Actions for Gateway", "Delete…", "Delete symbol")
	b.waitText("2 symbols")

	b.clickNode(`document.getElementById("symbol-5")`)
	b.waitText("40 × 20")
	equal(b, `location.hash`, "#/symbols/2/5")
	b.click("Close") // returns to the search
	b.waitFocus(`document.getElementById("symbol-5")`)
	equal(b, `location.hash + e2e.field("Search all folders").value`, "#/symbols/search/gategate")

	b.fill("Search all folders", `100% “/&+`)
	b.waitText("No name contains “100% “/&+”.")
	b.do(reload)
	b.waitText("No name contains “100% “/&+”.")
	b.fill("Search all folders", " ")
	b.waitText("Ball valve") // the first folder

	b.fill("Search all folders", "1") // also the id of a symbol that is shown
	b.waitText("Tailgate 100%")

	s.symbol(valves.ID, "Pipe", "text/plain", "data") // found until the last letter is typed
	for i := range 130 {
		s.symbol(valves.ID, fmt.Sprintf("Pipes %d", i), "text/plain", "data")
	}
	b.fill("Search all folders", "pipes")
	b.wait(`document.querySelector(".tile .name")?.innerText.startsWith("Pipes 0")`)
	b.waitText("100 symbols")
	b.click("Show more")
	b.waitText("130 symbols")
	b.wait(`!e2e.button("Show more")`)
}
