package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/symbols"
)

// unprotected asks for no client keys.
func unprotected(o *httpapi.Options) { o.DangerouslySkipClientKeys = true }

func TestSymbols_askForAKeyOnlyWhereTheServerDoes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.folder("Valves", "Gate valve")
	b := open(t, s.url+"#/symbols")
	b.sees("Client key required")
	b.giveKey("Client key", "cbk_nonsense")
	b.sees("Key rejected")
	b.giveKey("Client key", s.raw)
	b.sees("Gate valve")

	o := serve(t, unprotected)
	o.folder("Valves", "Gate valve")
	b = open(t, o.url+"#/symbols")
	b.sees("Gate valve")
}

func TestSymbols_foldersAreMadeRenamedAndDeleted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	b := open(t, s.url+"#/symbols")
	b.sees("No folders yet")
	b.pressNode(`document.querySelector(".notice button")`)
	b.fill("Name", "Valves")
	b.press("Create folder")
	b.sees("This folder is empty")
	is.Equal(eval[string](b, `location.hash`), "#/symbols/1")

	b.press("New folder")
	b.fill("Name", "Valves")
	b.press("Create folder")
	b.sees("Name is taken by another folder.")
	b.fill("Name", "Pumps")
	b.press("Create folder")
	b.wait(`location.hash === "#/symbols/2" && document.title === "Symbols · Canvasback"`)

	b.press("Folder actions")
	b.press("Rename folder…")
	b.fill("Name", "Pumps & fans")
	b.press("Rename")
	b.wait(`document.getElementById("title").innerText === "Pumps & fans"`)
	b.press("Valves")
	b.wait(`document.getElementById("title").innerText === "Valves"`)
	is.Equal(b.focused(), "Valves") // the link keeps it
	b.do(reload)
	b.wait(`document.getElementById("title").innerText === "Valves"`)

	b.press("Folder actions")
	b.press("Delete folder…")
	b.sees("The folder is empty.")
	b.press("Delete folder")
	b.sees("Valves deleted.")
	b.waitFocus(`document.getElementById("title")`)
	list, err := s.symbols.ListFolders(t.Context())
	is.NoErr(err)
	is.Equal(len(list.Folders), 1)
	is.Equal(list.Folders[0].Name, "Pumps & fans")
}

func TestSymbols_areShownRenamedMovedAndDeleted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	valves := s.folder("Valves", "Gate valve", "Ball valve", "Check valve")
	pumps := s.folder("Pumps")
	s.symbol(valves.ID, "A note", "text/plain", "not a picture")
	s.symbol(valves.ID, "Bare drawing", "image/svg+xml", drawing)
	b := open(t, s.url+"#/symbols")
	b.sees("5 symbols")
	b.wait(`document.querySelectorAll(".preview img").length === 4 && [...document.querySelectorAll(".preview img")].every((image) => image.naturalWidth === 40)`)
	is.True(eval[bool](b, `[...document.querySelectorAll(".preview img")].every((image) => image.src.startsWith("blob:"))`))
	is.True(eval[bool](b, `new Promise((gone) => {
		const again = new Image();
		again.onload = () => gone(false);
		again.onerror = () => gone(true);
		again.src = document.querySelector(".preview img").src;
	})`)) // its address has been let go of
	b.sees("not a picture")

	b.press("Gate valve")
	b.sees("40 × 20")
	is.Equal(eval[string](b, `location.hash`), "#/symbols/1/1")
	b.do(reload)
	b.sees("40 × 20") // it has an address
	b.press("Download")
	is.Equal(string(b.downloaded("Gate valve.svg")), drawing)
	b.press("Close")
	b.waitFocus(`document.getElementById("symbol-1")`)
	is.Equal(eval[string](b, `location.hash`), "#/symbols/1")

	b.fill("Filter by name or type", "BALL")
	b.sees("1 of 5 symbols")
	b.fill("Filter by name or type", "no such thing")
	b.sees("No symbol matches")
	b.fill("Filter by name or type", "image/")
	b.sees("4 of 5 symbols")
	b.press("Reload")
	b.lacks("4 of 5")

	b.press("Actions for Ball valve")
	b.press("Rename…")
	b.fill("Name", "Globe valve")
	b.press("Rename")
	b.waitFocus(`e2e.button("Actions for Globe valve")`)

	b.press("Actions for Globe valve")
	b.press("Move…")
	b.press("Move")
	b.sees("Globe valve moved to Pumps.")
	b.waitFocus(`document.getElementById("symbol-3")`)
	b.sees("4 symbols")
	is.Equal(s.in(pumps.ID)[0].Name, "Globe valve")

	b.drag(`document.getElementById("symbol-3")`, `document.getElementById("folder-2")`)
	b.sees("Check valve moved to Pumps.")
	b.sees("3 symbols")
	is.Equal(len(s.in(pumps.ID)), 2)

	b.press("Actions for Gate valve")
	b.press("Delete…")
	b.press("Delete symbol")
	b.sees("Gate valve deleted.")
	b.waitFocus(`document.getElementById("symbol-4")`)
	is.Equal(len(s.in(valves.ID)), 2)

	b.press("Folder actions")
	b.press("Delete folder…")
	b.sees("and 2 symbols are deleted permanently")
	b.press("Delete folder and 2 symbols")
	b.wait(`document.getElementById("title").innerText === "Pumps"`)
}

func TestSymbols_imagesAreAdded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	folder := s.folder("Valves")
	other := s.folder("Pumps")
	b := open(t, s.url+"#/symbols")
	b.sees("This folder is empty")
	unsized := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 12"><path d="M0 0h24"/></svg>`
	b.choose(`document.querySelector("input[type=file][multiple]")`,
		b.write("two by one.png", bitmap(2, 1)), b.write("notes.txt", []byte("text")), b.write("unsized.svg", []byte(unsized)), b.write("broken.png", []byte("no")))
	b.sees("2 files could not be added")
	b.sees("notes.txt: Not an image.")
	b.sees("broken.png: The browser cannot decode the image.")
	b.sees("2 symbols")
	b.press("Dismiss")
	b.lacks("could not be added")
	b.waitFocus(`document.getElementById("add-images")`)

	type content struct {
		Name, Type    string
		Content       []byte
		Width, Height int
	}
	for i, want := range []content{{"two by one", "image/png", bitmap(2, 1), 2, 1}, {"unsized", "image/svg+xml", []byte(unsized), 24, 12}} {
		symbol := s.in(folder.ID)[i]
		var got content
		is.NoErr(json.Unmarshal([]byte(symbol.Data), &got))
		is.Equal(got, want)
		is.Equal(symbol.Name, want.Name)
		is.Equal(symbol.Type, want.Type)
	}

	b.dropFiles(`document.querySelector(".grid")`, b.write("dropped.png", bitmap(3, 3)))
	b.sees("3 symbols")
	b.dropFiles(`document.getElementById("folder-2")`, b.write("elsewhere.png", bitmap(3, 3)))
	b.sees("1 symbol added to Pumps.")
	is.Equal(s.in(other.ID)[0].Name, "elsewhere")
	b.dropFiles(`document.querySelector(".bar")`, b.write("nowhere.png", bitmap(3, 3))) // the page stays
	is.Equal(len(s.in(folder.ID)), 3)
	b.press("Pumps")
	b.sees("elsewhere")
}

func TestSymbols_tooLargeForTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t, unprotected, func(o *httpapi.Options) { o.SymbolLimit = 4000 })
	s.folder("Valves")
	b := open(t, s.url+"#/symbols")
	b.sees("This folder is empty")
	large := strings.Replace(drawing, "<path", "<!--"+strings.Repeat("x", 4000)+"--><path", 1)
	b.choose(`document.querySelector("input[type=file][multiple]")`, b.write("large.svg", []byte(large)), b.write("small.svg", []byte(drawing)))
	b.sees("large.svg: body is too large")
	b.sees("1 symbol")
}

// TestSymbols_changedMeanwhile has someone else change what the reader sees.
func TestSymbols_changedMeanwhile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	var mu sync.Mutex
	var conditions []string
	beat := func() {} // called between the reading and the writing
	handler := s.handler(unprotected)
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" {
			mu.Lock()
			conditions = append(conditions, r.Header.Get("If-Match"))
			mu.Unlock()
			beat()
		}
		handler.ServeHTTP(w, r)
	}))
	folder := s.folder("Valves", "Gate valve", "Ball valve")
	rename := func(id int64, name string) {
		_, err := s.symbols.UpdateSymbol(t.Context(), id, symbols.SymbolFields{Name: &name})
		is.NoErr(err)
	}
	b := open(t, s.url+"#/symbols")
	b.sees("2 symbols")

	rename(1, "Slide valve") // before the reader begins
	b.press("Actions for Gate valve")
	b.press("Delete…")
	b.press("Delete symbol")
	b.sees("Changed by someone else")
	b.press("Cancel")
	b.wait(`e2e.button("Slide valve")`)
	is.Equal(len(s.in(folder.ID)), 2)

	beat = func() { // while the reader's change is on its way
		beat = func() {}
		rename(2, "Globe valve")
	}
	b.press("Actions for Ball valve")
	b.press("Rename…")
	b.fill("Name", "Mine")
	b.press("Rename")
	b.sees("Changed by someone else")
	b.press("Cancel")
	b.wait(`e2e.button("Globe valve")`)

	b.press("Actions for Globe valve")
	b.press("Rename…")
	b.fill("Name", "Mine")
	b.press("Rename")
	b.wait(`e2e.button("Mine")`)

	is.NoErr(s.symbols.DeleteSymbol(t.Context(), 1)) // gone altogether
	b.press("Actions for Slide valve")
	b.press("Delete…")
	b.press("Delete symbol")
	b.sees("No such symbol.")
	b.press("Cancel")
	b.sees("1 symbol")
	mu.Lock()
	defer mu.Unlock()
	is.Equal(len(conditions), 2) // what had changed before was not even sent
	for _, condition := range conditions {
		is.True(strings.HasPrefix(condition, `"`))
	}
}

// TestSymbols_hostile has symbols that would run if they could.
func TestSymbols_hostile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	folder := s.folder("Traps")
	trap := `<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xhtml" width="40" height="20" onload="top.ran=1">` +
		`<script>top.ran=1;parent.ran=1;alert(1);fetch("http://203.0.113.1/")</script><script href="http://203.0.113.1/x.js"/>` +
		`<image href="http://203.0.113.1/x.png" width="9" height="9" onerror="top.ran=1"/><foreignObject width="9" height="9"><x:img src="x" onerror="top.ran=1"/>` +
		`<x:iframe src="javascript:top.ran=1"/></foreignObject><animate onbegin="top.ran=1" attributeName="x" dur="1s"/>` +
		`<a href="javascript:top.ran=1"><rect width="40" height="20"/></a></svg>`
	for name, data := range map[string]string{
		"wrapped":                            picture("wrapped", "image/svg+xml", trap),
		"bare":                               trap,
		"text of a drawing as content":       `{"type":"image/svg+xml","content":` + quote(trap) + `}`,
		"a page that calls itself a picture": picture("p", "image/svg+xml", `<html><script>top.ran=1</script></html>`),
		"a page":                             picture("p", "text/html", `<script>top.ran=1</script>`),
		"markup":                             `<img src=x onerror="top.ran=1"><script>top.ran=1</script>`,
		"odd JSON":                           `{"content":{"a":1},"type":["image/svg+xml"],"width":{"toString":1},"height":"x"}`,
		"odd sizes":                          strings.Replace(picture("p", "image/svg+xml", drawing), `"width":40`, `"width":{"toString":1}`, 1),
		"a bare number":                      `5`,
		"null":                               `null`,
		"no base64":                          `{"type":"image/png","content":"***"}`,
		"an address":                         `{"type":"image/png","content":"http://203.0.113.1/x.png"}`,
	} {
		s.symbol(folder.ID, name, "image/svg+xml", data)
	}
	s.symbol(folder.ID, `<img src=x onerror="top.ran=1">`, "image/png", "x")
	s.folder(`<script>top.ran=1</script>`)
	b := open(t, s.url+"#/symbols")
	b.sees("13 symbols")
	b.wait(`[...document.querySelectorAll(".preview")].every((plate) => plate.childNodes.length && (!plate.querySelector("img") || plate.querySelector("img").complete))`)
	is.True(eval[int](b, `document.querySelectorAll(".preview img").length`) >= 4) // drawings are shown, dead
	names := eval[[]string](b, `[...document.querySelectorAll(".tile .name")].map((node) => node.innerText)`)
	for _, name := range names {
		b.press(name)
		b.wait(`document.querySelector("dialog .preview")?.childNodes.length && document.querySelector("dialog img")?.complete !== false`)
		b.press("Close")
	}
	is.Equal(eval[bool](b, `"ran" in window`), false)
	is.Equal(eval[int](b, `document.querySelectorAll("main script, main iframe, main object, main embed, main svg:not(.icon)").length`), 0)
}

func TestSymbols_byTheThousand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	folder := s.folder("Many")
	for i := range 2000 {
		s.symbol(folder.ID, fmt.Sprintf("Symbol %d", i+1), "image/svg+xml", picture("s", "image/svg+xml", drawing))
	}
	b := open(t, s.url+"#/symbols")
	b.sees("2,000 symbols")
	tiles := func() int { return eval[int](b, `document.querySelectorAll(".tile").length`) }
	is.True(tiles() < 300)
	for before := 0; before < 130; {
		before = tiles()
		eval[bool](b, `(scrollTo(0, document.documentElement.scrollHeight), true)`)
		b.wait(fmt.Sprintf(`document.querySelectorAll(".tile").length > %d`, before)) // more come
	}
	b.wait(`document.querySelectorAll(".preview img").length < 200`) // what is far away is put aside
	b.wait(`[...document.querySelectorAll(".preview")].filter((plate) => plate.getBoundingClientRect().bottom > 0 && plate.getBoundingClientRect().top < innerHeight).every((plate) => plate.querySelector("img"))`)
	b.fill("Filter by name or type", "Symbol 1999")
	b.sees("1 of 2,000 symbols")
	b.press("Actions for Symbol 1999")
	b.press("Delete…")
	b.press("Delete symbol")
	b.sees("No symbol matches")
	b.fill("Filter by name or type", "")
	b.sees("1,999 symbols")
}
