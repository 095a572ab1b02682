package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// lateSite is a site that delays a response.
type lateSite struct {
	*site
	matches func(*http.Request) bool
	armed   atomic.Bool   // the next response that matches is delayed
	reached chan struct{} // closed when its request has been handled
	sent    chan struct{} // closed when it is to be sent
}

func startLateSite(t *testing.T, matches func(*http.Request) bool, opts ...func(*httpapi.Options)) *lateSite {
	t.Helper()
	s := &lateSite{site: newSite(t, opts...), matches: matches, reached: make(chan struct{}), sent: make(chan struct{})}
	handler := s.handler()
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.matches(r) || !s.armed.CompareAndSwap(true, false) {
			handler.ServeHTTP(w, r)
			return
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		close(s.reached)
		select {
		case <-s.sent:
		case <-t.Context().Done():
		}
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		w.Write(recorder.Body.Bytes())
	}))
	return s
}

// send sends the delayed response, and gives the page time for it.
func (s *lateSite) send() {
	close(s.sent)
	time.Sleep(500 * time.Millisecond)
}

// readsOf returns a function that matches reads of a path.
func readsOf(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == "GET" && strings.HasSuffix(r.URL.Path, path) }
}

func TestLate_LoadingDoesNotBlock(t *testing.T) {
	s := startLateSite(t, readsOf("/symbol/folders"), unprotected)
	s.folder("Valves", "Gate valve")
	s.armed.Store(true)
	b := openTab(t, s.url+"#/symbols")
	b.wait(`document.querySelector(".skeleton")`)
	equal(b, `document.querySelector(".skeleton").getAttribute("aria-label")`, "Loading")
	b.click("Exports")
	b.wait(`e2e.field("Sources")`)
	b.click("Symbols")
	s.send()
	b.waitText("Gate valve")
}

// TestLate_KeyEntered receives the rejection of a request without a key after the key has
// been entered.
func TestLate_KeyEntered(t *testing.T) {
	s := startLateSite(t, readsOf("/symbol/folders"))
	s.folder("Valves", "Gate valve")
	s.armed.Store(true)
	b := openTab(t, s.url+"#/symbols")
	b.wait(`document.querySelector(".skeleton")`)
	b.enterClientKey(s.site)
	s.send()
	b.waitText("1 symbol")
	b.click("Reload")
	b.waitText("1 symbol")
	b.wait(`e2e.button("Access client")`)
}

// TestLate_EscapeTwice closes a dialog while its request runs, which browsers permit with a
// second Escape.
func TestLate_EscapeTwice(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/rotate") })
	b := openKeys(s.site)
	b.click("More for "+keyName, "Rotate…")
	s.armed.Store(true)
	b.click("Rotate key")
	<-s.reached
	b.typeKeys(kb.Escape)
	b.typeKeys(kb.Escape)
	s.send()
	s.is.True(!s.accepts(string(s.RawKey)))
	b.waitText("Key rotated")
}

// TestLate_DialogIsLeft closes a dialog whose request has no response, which comes later.
func TestLate_DialogIsLeft(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return r.Method == "POST" })
	b := openKeys(s.site)
	s.armed.Store(true)
	b.createKey("new one")
	<-s.reached
	b.click("Cancel")
	b.waitText("The server has not responded yet.")
	b.click("Cancel")
	b.waitFocus(`document.getElementById("create-key")`)
	b.click("Reload")
	b.waitText("2 keys")
	s.send()
	b.waitText("Store the key of new one now.")
	s.is.True(s.accepts(eval[string](b, `document.querySelector(".secret code").innerText`)))
	b.copyKey()
	b.waitText("2 keys")
}

// TestLate_DialogIsLeftAndFails is TestLate_DialogIsLeft for a request that fails.
func TestLate_DialogIsLeftAndFails(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return r.Method == "POST" })
	b := openKeys(s.site)
	s.armed.Store(true)
	s.failOnce("/admin/api-keys")
	b.createKey("new one")
	<-s.reached
	b.typeKeys(kb.Escape)
	b.waitText("The server has not responded yet.")
	b.typeKeys(kb.Escape)
	b.waitFocus(`document.getElementById("create-key")`)
	s.send()
	b.waitText("Create key: The response has status 503")
}

// TestLate_FormAfterDialogIsLeft changes an export when the one before is registered.
func TestLate_FormAfterDialogIsLeft(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/register") })
	s.register("first", apitest.FilesURL+"a.pdf")
	b := openExportList(s.site)
	s.armed.Store(true)
	b.registerExport("second", apitest.FilesURL+"b.pdf")
	<-s.reached
	b.click("Cancel", "Cancel", "More for first", "Change file…")
	b.fill("File name (optional)", "c.pdf")
	s.send()
	b.waitText("Registered.")
	equal(b, `e2e.field("File name (optional)").value`, "c.pdf")
}

// TestLate_FolderAfterDialogIsLeft shows another screen when a folder is created or deleted.
func TestLate_FolderAfterDialogIsLeft(t *testing.T) {
	t.Parallel()
	for method, act := range map[string]func(b *tab){
		"POST":   func(b *tab) { b.createFolder("Pumps") },
		"DELETE": func(b *tab) { b.click("Folder actions", "Delete folder…", "Delete folder and 1 symbol") },
	} {
		t.Run(method, func(t *testing.T) {
			s := startLateSite(t, func(r *http.Request) bool { return r.Method == method }, unprotected)
			s.folder("Valves", "Gate valve")
			b := openSymbols(s.site, "1 symbol")
			s.armed.Store(true)
			act(b)
			<-s.reached
			b.click("Cancel", "Cancel")
			if method == "POST" {
				b.click("Reload")
				b.waitText("Pumps")
			}
			b.click("API")
			b.waitText("About this API")
			s.send()
			equal(b, `location.hash`, "#/api")
			b.click("Symbols")
			if method == "POST" {
				b.waitText("Gate valve")
				equal(b, `document.querySelectorAll("nav li").length`, 2)
			} else {
				b.waitText("No folders yet")
			}
		})
	}
}

// TestLate_UndoTwice clicks twice before the response.
func TestLate_UndoTwice(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return r.Method == "PATCH" }, unprotected)
	s.folder("Valves", "Gate valve")
	b := openSymbols(s.site, "1 symbol")
	b.rename("Actions for Gate valve", "Rename…", "Mine")
	b.waitText("Gate valve renamed.")
	s.armed.Store(true)
	eval[bool](b, `[1, 2].forEach(() => document.querySelector(".undo").click()) ?? true`)
	<-s.reached
	equal(b, `document.querySelector(".undo").ariaBusy + e2e.text().includes("Undone.")`, "truefalse")
	s.send()
	b.waitText("Undone.")
}

// TestLate_ListOfKeys changes keys while the list is reloaded.
func TestLate_ListOfKeys(t *testing.T) {
	s := startLateSite(t, readsOf("/admin/api-keys"))
	b := openKeys(s.site)
	s.armed.Store(true)
	b.click("Reload")
	<-s.reached
	b.click("Deactivate " + keyName)
	b.waitText("is deactivated")
	b.createKey("new one")
	b.waitText("Store the key of new one now.")
	b.copyKey()
	b.waitText("2 keys")
	s.send()
	b.waitText("2 keys")
	b.wait(`e2e.button("Activate ` + keyName + `")`)
}

// TestLate_ChecksOfExports reads the keys while exports are checked, which changes nothing.
func TestLate_ChecksOfExports(t *testing.T) {
	var lists atomic.Int64
	s := startSiteBehind(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/check") {
			time.Sleep(100 * time.Millisecond)
		} else if readsOf("/admin/api-keys")(r) {
			lists.Add(1)
			time.Sleep(500 * time.Millisecond)
		}
		return false
	})
	for i := range 200 {
		s.register(fmt.Sprint("source ", i), apitest.FilesURL+"lost.pdf")
	}
	b := openExportList(s)
	b.click("Check all")
	b.waitText("Checking:")
	b.click("Keys")
	b.waitText("1 key")
	s.is.Equal(lists.Load(), int64(1))
}

// TestLate_ListOfExports sends the list after or during a removal.
func TestLate_ListOfExports(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{false, true} {
		t.Run(fmt.Sprint("during=", during), func(t *testing.T) {
			removal := make(chan struct{})
			s := startLateSite(t, func(r *http.Request) bool {
				if r.Method == "DELETE" {
					<-removal
				}
				return readsOf("/admin/exports")(r)
			})
			s.register("keep", apitest.FilesURL+"a.pdf")
			s.register("lost", apitest.FilesURL+"b.pdf")
			b := openExportList(s.site)
			b.waitText("2 exports")
			s.armed.Store(true)
			b.click("Keys") // and back, which reloads the list
			b.click("Exports")
			<-s.reached
			time.Sleep(500 * time.Millisecond) // a change of screens closes menus
			b.click("More for lost", "Remove…", "Remove")
			if during {
				s.send()
			}
			close(removal)
			b.waitText("Removed.", "1 export")
			if !during {
				s.send()
			}
			b.waitText("1 export")
			s.is.True(!strings.Contains(eval[string](b, `document.querySelector(".records").innerText`), "lost"))
		})
	}
}

// TestLate_Downloads downloads a file while the link of another one is made.
func TestLate_Downloads(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/links") })
	s.RegisterExport(t, "first", "first.pdf", "1")
	s.RegisterExport(t, "second", "second.pdf", "2")
	b := openTab(t, s.url+"#/exports")
	b.enterBothKeys(s.site)
	download := func(source string) {
		b.click("More for " + source)
		b.clickNode(`[...document.querySelectorAll("[role=menuitem]")].find((one) => one.innerText === "Download")`)
	}
	s.armed.Store(true)
	download("first")
	<-s.reached
	download("second")
	s.send()
	s.is.Equal(string(b.downloaded("second.pdf"))+string(b.downloaded("first.pdf")), "21")
}

// TestLate_PageOfExports loads a page for two actions. Chromium sends the second request once
// the first has its response.
func TestLate_PageOfExports(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool { return readsOf("/admin/exports")(r) && r.FormValue("after") != "" })
	for i := range 1003 {
		s.register(fmt.Sprint("source ", i), apitest.FilesURL+"lost.pdf")
	}
	b := openExportList(s.site)
	b.waitText("1,000 exports, more on request")
	s.armed.Store(true)
	b.click("Load more")
	<-s.reached
	b.click("Check all")
	s.send()
	b.waitText("Checking:")
	equal(b, `document.querySelector(".summary").innerText`, "1,003 exports")
}

// TestLate_PageLeft opens another page before the first one of its kind is read.
func TestLate_PageLeft(t *testing.T) {
	t.Parallel()
	ofAcme := func(r *http.Request) bool { return r.FormValue("owner") == "acme" }
	for name, c := range map[string]struct {
		late                func(*http.Request) bool
		first, other, shows string // of the other
	}{
		"of an owner": {ofAcme, "#/owner/acme", "#/owner/beta", "1 key, 1 active"},
		"of a key":    {readsOf("/admin/api-keys/1"), "#/key/1", "#/key/2", "ID 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startLateSite(t, c.late)
			for _, owner := range []string{"acme", "acme", "beta"} {
				s.createKey("key of "+owner, keys.Fields{Owner: &owner})
			}
			b := openKeys(s.site)
			s.armed.Store(true)
			b.visit(s.url + c.first)
			<-s.reached
			b.visit(s.url + c.other)
			b.waitText(c.shows)
			title := eval[string](b, `document.getElementById("title").innerText`)
			s.send()
			b.waitText(c.shows)
			equal(b, `document.getElementById("title").innerText`, title)
		})
	}
}

// TestLate_SymbolGone opens a symbol that has gone, and the next one.
func TestLate_SymbolGone(t *testing.T) {
	s := startLateSite(t, readsOf("/symbols/1"), unprotected)
	s.folder("Valves", "Gate valve", "Ball valve")
	b := openSymbols(s.site, "2 symbols")
	s.is.NoErr(s.Symbols.DeleteSymbol(t.Context(), 1, symbols.Any, 0))
	s.armed.Store(true)
	b.click("Gate valve")
	<-s.reached
	b.click("Next symbol")
	b.waitText("40 × 20")
	s.send()
	equal(b, `e2e.text().includes("No such symbol.")`, false)
	b.click("Previous symbol")
	b.waitText("No such symbol.")
	equal(b, `e2e.text().includes("40 × 20")`, false)
}

// leaveSymbols opens a URL of the symbols, and another screen before the late response.
func leaveSymbols(t *testing.T, late, symbolsURL string) (*lateSite, *tab) {
	t.Helper()
	s := startLateSite(t, readsOf(late))
	s.folder("Valves", "Gate valve")
	b := openWithClientKey(s.site, "exports")
	s.armed.Store(true)
	b.visit(s.url + symbolsURL)
	<-s.reached
	b.click("API")
	b.waitText("About this API")
	s.send()
	return s, b
}

// TestLate_Symbol leaves the screen before the symbol of its URL is read.
func TestLate_Symbol(t *testing.T) {
	_, b := leaveSymbols(t, "/symbols/1", "#/symbols/1/1")
	equal(b, `location.hash + document.querySelectorAll("dialog").length`, "#/api0")
}

// TestLate_Folders leaves the screen before the folders are read.
func TestLate_Folders(t *testing.T) {
	s, b := leaveSymbols(t, "/symbol/folders", "#/symbols")
	s.is.Equal(b.sent(func(r *network.Request) bool { return strings.Contains(r.URL, "/symbol/changes") }), 0) // nobody sees them
}

// loginSite is a site whose administrator logs in with a cookie.
type loginSite struct {
	*site
	b *tab
}

func startLoginSite(t *testing.T) loginSite {
	t.Helper()
	s := startSite(t, cookieLogin)
	b := openTab(t, s.url+"icon.svg")
	eval[string](b, `document.cookie = "session=ann; path=/"`)
	return loginSite{s, b}
}

// loginEnds ends the login, goes back in the history, and logs in again as in another tab.
func (s loginSite) loginEnds() {
	s.b.t.Helper()
	eval[string](s.b, `document.cookie = "session=; path=/; max-age=0"`)
	eval[bool](s.b, `(history.back(), true)`)
	s.b.waitText("Not logged in as an administrator.")
	eval[string](s.b, `document.cookie = "session=ann; path=/"`)
}

// openList opens a list with a query, and then without it.
func (s loginSite) openList(screen, query, field, value, shows string) {
	s.b.t.Helper()
	s.b.visit(s.url + screen + query)
	s.b.waitText(shows)
	eval[bool](s.b, `(location.hash = `+quote(screen)+`, true)`)
	s.b.wait(`e2e.field(` + quote(field) + `).value === ` + quote(value))
	s.b.waitText(shows)
	time.Sleep(500 * time.Millisecond) // a list that is read again closes menus
}

// The login ends while a dialog is open, and the list is read again.
func TestLate_LoginDuringKeyDialog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open   func(b *tab)
		submit string
	}{
		"Key created": {func(b *tab) { b.click("Create key"); b.fill("Name", "New one") }, "Create key"},
		"Key rotated": {func(b *tab) { b.click("More for "+keyName, "Rotate…") }, "Rotate key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startLoginSite(t)
			s.openList("#/keys", "?status=active", "Status", "", keyName)
			test.open(s.b)
			s.loginEnds()
			s.b.click(test.submit)
			s.b.waitText(name)
		})
	}
}

func TestLate_LoginDuringRemoval(t *testing.T) {
	s := startLoginSite(t)
	s.register("drawing 7", apitest.FilesURL+"plan.pdf")
	s.openList("#/exports", "?order=By+source", "Order", "Oldest first", "1 export")
	s.b.click("More for drawing 7", "Remove…")
	s.loginEnds()
	s.b.click("Remove")
	s.b.wait(`!document.querySelector("dialog")`)
}

// idShown is the expression of the id in the dialog of a symbol.
const idShown = `[...document.querySelectorAll("dialog dt")].find((one) => one.innerText === "ID")?.nextSibling.innerText ?? ""`

// TestLate_StepsBetweenSymbols shows the next symbol while a picture is decoded, and the one
// after the next before that has been read. The browser permits no more changes of the URL.
func TestLate_StepsBetweenSymbols(t *testing.T) {
	ended := make(chan struct{}, 9)
	s := startSiteBehind(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/symbols/3") {
			return false
		}
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	}, unprotected)
	s.folder("Valves", "Gate valve", "Ball valve", "Check valve", "Needle valve")
	b := openSymbols(s, "4 symbols")
	eval[any](b, `(({ prototype }) => {
		const read = prototype.readAsDataURL;
		prototype.readAsDataURL = function (blob) {
			prototype.readAsDataURL = read;
			window.decode = () => read.call(this, blob);
		};
		history.replaceState = () => { throw new DOMException("too many calls", "SecurityError"); };
	})(FileReader)`)
	b.click("Gate valve")
	b.wait(`window.decode`)
	b.typeKeys(kb.ArrowRight)
	equal(b, idShown, "2")
	eval[any](b, `decode()`)
	time.Sleep(500 * time.Millisecond)
	equal(b, idShown, "2")
	b.typeKeys(kb.ArrowRight + kb.ArrowRight)
	equal(b, idShown, "4")
	<-ended // nobody waits for it
}

// TestLate_SearchWhileReading types in the search when the folders are read again.
func TestLate_SearchWhileReading(t *testing.T) {
	s := startLateSite(t, readsOf("/symbol/folders"), unprotected)
	s.folder("Valves", "Gate valve")
	b := openSymbols(s.site, "Gate valve")
	s.armed.Store(true)
	b.click("Reload")
	<-s.reached
	b.fill("Search all folders", "g")
	eval[any](b, `(window.typing = setInterval(() => document.activeElement.dispatchEvent(new InputEvent("input")), 50), null)`)
	s.send()
	equal(b, `document.activeElement.value`, "g")
	eval[any](b, `clearInterval(typing)`)
	b.waitText("1 symbol")
}
