package e2e_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// What a reader does with the console, in a word each.

// giveKey types a key into the form that asks for it.
func (b *tab) giveKey(label, key string) {
	b.t.Helper()
	b.fill(label, key)
	b.press("Use this key")
}

// openKeys opens the list of keys with the admin key.
func openKeys(s *site) *tab {
	s.t.Helper()
	b := open(s.t, s.url)
	b.giveKey("Admin key", adminKey)
	b.wait(`e2e.button("Create key")`)
	return b
}

// openWithClientKey opens a screen with a client key.
func openWithClientKey(s *site, screen string) *tab {
	s.t.Helper()
	b := open(s.t, s.url+"#/"+screen)
	b.press("Access")
	b.wait(`e2e.field("Client key")`)
	b.fill("Client key", s.raw)
	b.pressNode(`e2e.field("Client key").form.querySelector(".main")`)
	b.wait(`!document.querySelector("dialog")`)
	return b
}

// focused returns the name of what has the focus.
func (b *tab) focused() string {
	b.t.Helper()
	return eval[string](b, `e2e.name(document.activeElement)`)
}

// waitFocus waits until what an expression finds has the focus, and no dialog
// is left that would give it to something else.
func (b *tab) waitFocus(expression string) {
	b.t.Helper()
	b.wait(`[...document.querySelectorAll("dialog")].every((one) => one.open) && document.activeElement === (` + expression + `)`)
}

// key presses a key of the keyboard.
func (b *tab) key(keys string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// choose gives files to the file chooser that an expression finds.
func (b *tab) choose(expression string, paths ...string) {
	b.t.Helper()
	object := eval[*runtime.RemoteObject](b, expression)
	call(b, dom.SetFileInputFiles, dom.SetFileInputFilesParams{ObjectID: object.ObjectID, Files: paths})
}

// dropFiles drops files from outside on what an expression finds.
func (b *tab) dropFiles(expression string, paths ...string) {
	b.t.Helper()
	at := b.place(expression)
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
	for _, step := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		call(b, input.DispatchDragEvent, input.DispatchDragEventParams{Type: step, X: at.X, Y: at.Y, Data: data})
	}
}

// drag drags what an expression finds onto another.
func (b *tab) drag(from, to string) {
	b.t.Helper()
	start, end := b.place(from), b.place(to)
	start = eval[point](b, `e2e.place(`+from+`)`)
	end = eval[point](b, `((at) => at)(`+`e2e.place(`+to+`))`)
	b.do(chromedp.DragAndDropXY(start.X, start.Y, end.X, end.Y))
}

// downloaded waits for a download and returns its content.
func (b *tab) downloaded(name string) []byte {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(15 * time.Millisecond) {
		content, err := os.ReadFile(filepath.Join(b.downloads, name))
		if err == nil {
			return content
		}
		if time.Now().After(deadline) {
			entries, _ := os.ReadDir(b.downloads)
			b.t.Fatalf("there is no download %q, but %v", name, entries)
		}
	}
}

// write makes a file for a test and returns its path.
func (b *tab) write(name string, content []byte) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// bitmap is a PNG of a size.
func bitmap(width, height int) []byte {
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// reload loads the page anew.
func reload(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	return chromedp.Reload()(ctx, t)
}
