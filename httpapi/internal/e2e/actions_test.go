package e2e_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/symbols"
)

// Actions of a user of the console.

// enterKey submits a key form.
func (b *tab) enterKey(label, key string) {
	b.t.Helper()
	b.fill(label, key)
	b.click("Use this key")
}

// openKeys opens the keys screen with the admin key.
func openKeys(s *site) *tab {
	s.t.Helper()
	b := openTab(s.t, s.url+"#/keys")
	b.enterKey("Admin key", apitest.AdminKey)
	b.wait(`e2e.button("Create key")`)
	return b
}

// openWithClientKey opens a screen with the client key.
func openWithClientKey(s *site, screen string) *tab {
	s.t.Helper()
	b := openTab(s.t, s.url+"#/"+screen)
	b.enterClientKey(s)
	return b
}

// openSymbols opens the symbols of a site that needs no key, and waits for a text.
func openSymbols(s *site, text string) *tab {
	s.t.Helper()
	b := openTab(s.t, s.url+"#/symbols")
	b.waitText(text)
	return b
}

// openValves opens the folder Valves, which has the id 1, on a site that needs no key.
func openValves(t *testing.T, symbolNames ...string) (*site, *tab) {
	t.Helper()
	s := startSite(t, unprotected)
	s.folder("Valves", symbolNames...)
	switch len(symbolNames) {
	case 0:
		return s, openSymbols(s, "This folder is empty")
	case 1:
		return s, openSymbols(s, "1 symbol")
	}
	return s, openSymbols(s, fmt.Sprint(len(symbolNames), " symbols"))
}

func (b *tab) enterClientKey(s *site) {
	b.t.Helper()
	b.click("Access")
	b.enterInDialog("Client key", string(s.RawKey))
	b.wait(`!document.querySelector("dialog")`)
}

// enterBothKeys enters the keys where the list of exports asks for them.
func (b *tab) enterBothKeys(s *site) {
	b.t.Helper()
	b.enterClientKey(s)
	b.click("Enter the admin key")
	b.enterInDialog("Admin key", apitest.AdminKey)
	b.wait(`!document.querySelector("dialog")`)
}

// enterInDialog enters a key in a dialog with two forms.
func (b *tab) enterInDialog(label, key string) {
	b.t.Helper()
	b.fill(label, key)
	b.clickNode(`e2e.field(` + quote(label) + `).form.querySelector(".main")`)
}

// clickSelection clicks a button of the bar for what is selected.
func (b *tab) clickSelection(name string) {
	b.t.Helper()
	b.clickNode(`[...document.querySelectorAll(".selection button")].find((one) => one.innerText === ` + quote(name) + `)`)
}

// rename enters another name in the dialog that an entry of a menu opens.
func (b *tab) rename(menu, entry, name string) {
	b.t.Helper()
	b.click(menu, entry)
	b.fill("Name", name)
	b.click("Rename")
}

// registerExport fills in and submits the form for an export.
func (b *tab) registerExport(source, exportedURL string) {
	b.t.Helper()
	b.click("Register…")
	b.fill("Source", source)
	b.fill("Exported file", exportedURL)
	b.click("Register")
}

// createKey creates a key, whose raw key a dialog then shows.
func (b *tab) createKey(name string) {
	b.t.Helper()
	b.click("Create key")
	b.fill("Name", name)
	b.click("Create key")
}

// copyKey copies the raw key that a dialog shows, and closes it.
func (b *tab) copyKey() {
	b.t.Helper()
	b.click("Copy key")
	b.wait(`e2e.button("Copied")`)
	b.click("Done")
}

func (b *tab) createFolder(name string) {
	b.t.Helper()
	b.click("New folder")
	b.fill("Name", name)
	b.click("Create folder")
}

func (b *tab) changeTags(symbol, tags string) {
	b.t.Helper()
	b.click("Actions for "+symbol, "Tags…")
	b.fill("Tags", tags)
	b.click("Save")
}

// undo takes back the last change, and waits for texts.
func (b *tab) undo(texts ...string) {
	b.t.Helper()
	b.click("Undo")
	b.waitText("Undone.")
	b.waitText(texts...)
}

// moveSelectedAndUndo moves the two selected symbols to the folder that the dialog
// chooses, and back.
func (b *tab) moveSelectedAndUndo(s *site, to symbols.Folder) {
	b.t.Helper()
	b.waitText("2 symbols selected")
	b.clickSelection("Move…")
	b.click("Move")
	b.waitText("2 symbols moved to " + to.Name + ".")
	is.New(b.t).Equal(len(s.symbolsIn(to.ID)), 2)
	b.click("Undo")
	b.waitText("Undone.") // until then, the symbols change places
}

// focused is the expression of the name of the focused element.
const focused = `e2e.name(document.activeElement)`

// pressThrough presses keys, and waits until the element of a name has the focus, in turn.
func (b *tab) pressThrough(steps [][2]string) {
	b.t.Helper()
	for _, step := range steps {
		b.typeKeys(step[0])
		equal(b, focused, step[1])
	}
}

// waitFocus waits until the element of an expression has the focus and no closed
// dialog is left, which would move the focus.
func (b *tab) waitFocus(expression string) {
	b.t.Helper()
	b.wait(`[...document.querySelectorAll("dialog")].every((one) => one.open) && document.activeElement === (` + expression + `)`)
}

// chooseFiles sets the files of the file input of an expression.
func (b *tab) chooseFiles(expression string, paths ...string) {
	b.t.Helper()
	if b.firefox != nil {
		b.firefox.chooseFiles(expression, paths)
		return
	}
	input := eval[*runtime.RemoteObject](b, expression)
	call(b, dom.SetFileInputFiles, dom.SetFileInputFilesParams{ObjectID: input.ObjectID, Files: paths})
}

// dropFiles drops files on the element of an expression.
func (b *tab) dropFiles(expression string, paths ...string) {
	b.t.Helper()
	b.hit(expression, func(at point) { b.dropFilesAt(at, paths...) })
}

func (b *tab) dropFilesAt(at point, paths ...string) {
	b.t.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
	for _, step := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		call(b, input.DispatchDragEvent, input.DispatchDragEventParams{Type: step, X: at.X, Y: at.Y, Data: data})
	}
}

// drag drags the element of one expression onto that of another.
func (b *tab) drag(from, to string) {
	b.t.Helper()
	start, end := b.pointOf("clickPoint", from), b.pointOf("clickPoint", to)
	start = eval[point](b, `e2e.clickPoint(`+from+`)`)
	end = eval[point](b, `e2e.clickPoint(`+to+`)`)
	b.do(chromedp.DragAndDropXY(start.X, start.Y, end.X, end.Y))
}

// downloaded waits for a download and returns its content.
func (b *tab) downloaded(name string) (content []byte) {
	b.t.Helper()
	b.waitFor(func() bool {
		content, _ = os.ReadFile(filepath.Join(b.downloads, name))
		return len(content) > 0 // the browser reserves the name by an empty file
	}, "the download of "+name)
	return content
}

// downloadedNames waits for a zip and returns the names of its files.
func (b *tab) downloadedNames(archive string) (names []string) {
	b.t.Helper()
	content := b.downloaded(archive)
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	is.New(b.t).NoErr(err)
	for _, file := range r.File {
		names = append(names, file.Name)
	}
	return names
}

// writeFile writes a temporary file and returns its path.
func (b *tab) writeFile(name string, content []byte) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	is.New(b.t).NoErr(os.WriteFile(path, content, 0o600))
	return path
}

// pngImage returns a PNG image.
func pngImage(width, height int) []byte {
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// reload reloads the page.
func reload(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	return chromedp.Reload()(ctx, t)
}
