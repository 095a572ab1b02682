package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/console"
	"example.com/canvasback/keys"
)

// visitScreens opens all screens, and calls visit for each screen, dialog and
// menu.
func visitScreens(b *tab, visit func(name string)) {
	b.t.Helper()
	// open clicks to open a screen, and visits it once a condition is true.
	open := func(name, condition string, clicks ...string) {
		b.t.Helper()
		b.click(clicks...)
		b.wait(condition)
		visit(name)
	}
	open("key form", `e2e.text().includes("Admin key required")`)
	b.enterKey("Admin key", "wrong")
	open("rejected key", `e2e.text().includes("Key rejected")`)
	b.enterKey("Admin key", apitest.AdminKey)
	open("overview", `e2e.text().includes("Keys by status")`)
	b.click("Keys")
	b.wait(`e2e.button("Create key")`)
	b.clickNode(`e2e.field("Select apitest")`)
	open("keys", `e2e.text().includes("1 key selected")`)
	open("key", `document.querySelector(".plot")`, "Scoped")
	open("owner", `e2e.text().includes("Most used keys") && document.querySelector(".plot")`, "Acme")
	b.click("All keys")
	b.wait(`e2e.button("Create key")`)
	open("shortcuts", `document.querySelector("dialog")`, "Keyboard shortcuts")
	open("menu", `document.querySelector(".menu")`, "Close", "More for apitest")
	open("expiry", `document.querySelector("dialog")`, "Change expiry…", "Date")
	open("confirmation", `e2e.button("Rotate key")`, "Cancel", "More for apitest", "Rotate…")
	open("raw key", `e2e.button("Copy key")`, "Rotate key")
	open("access", `document.querySelector("dialog")`, "Use it in this console", "Done", "Access admin client")
	open("symbols", `document.querySelectorAll(".preview img").length === 2`, "Close", "Symbols")
	open("symbol", `document.querySelector("dialog dl")`, "Gate valve") // before, the dialog still grows
	b.click("Close", "Actions for Ball valve", "Delete…", "Delete symbol")
	open("trash", `e2e.button("Restore Ball valve")`, "Folder actions", "Trash…")
	b.click("Restore Ball valve")
	b.waitText("Ball valve restored.")
	b.click("Close")
	b.fill("Filter by name or type", "no such thing")
	open("no match", `e2e.text().includes("No symbol matches")`)
	b.click("Exports")
	b.fill("Sources", strings.Join([]string{sourceURL("plan"), sourceURL("nope")}, "\n"))
	open("exports", `e2e.text().includes("1 file skipped")`, "Download 2 files as a zip")
	b.fill("Sources", sourceURL("nope"))
	open("failure", `e2e.text().includes("No export is registered")`, "Download")
	b.click("API")
	b.wait(`document.querySelector(".operation")`)
	b.clickNode(`[...document.querySelectorAll(".operation summary")].find((one) => one.innerText.includes("POST"))`)
	open("reference", `e2e.text().includes("With curl")`)
}

// populatedSite returns a site with records for every screen.
func populatedSite(t *testing.T) *site {
	t.Helper()
	s := startDocumentSite(t)
	valves := s.folder("Valves", "Gate valve", "Ball valve")
	s.symbol(valves.ID, "A note", "text/plain", strings.Repeat("not a picture ", 20))
	s.folder("Vents")
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	scopes := s.scopes(httpapi.ScopeExportsRead, httpapi.ScopeExportsRegister, httpapi.ScopeSymbolsRead, httpapi.ScopeSymbolsWrite, strings.Repeat("s", 64))
	s.createKey("Scoped", keys.Fields{Owner: new("Acme"), Scopes: &scopes})
	return s
}

// setMedia emulates media features.
func (b *tab) setMedia(features ...string) {
	b.t.Helper()
	var list []*emulation.MediaFeature
	for i := 0; i < len(features); i += 2 {
		list = append(list, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: list})
}

// lowContrast lists the texts with a contrast below WCAG 2.2 (1.4.3) as "ratio
// text".
const lowContrast = `(() => {
	const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
	const over = ([r, g, b, a = 1], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
	const light = (rgb) => rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (node) => {
		const layers = [];
		for (; node; node = node.parentElement) {
			const color = parse(getComputedStyle(node).backgroundColor);
			layers.push(color);
			if ((color[3] ?? 1) === 1) break;
		}
		return layers.reverse().reduce((under, color) => over(color, under), [255, 255, 255]);
	};
	const found = [];
	const check = (node, style, text) => {
		const under = ground(node);
		const ink = over(parse(style.color), under);
		const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5)) found.push(ratio.toFixed(2) + " " + text.trim().slice(0, 40));
	};
	const walker = document.createTreeWalker(e2e.top() === document ? document.body : e2e.top(), NodeFilter.SHOW_TEXT);
	for (let seen = 0; walker.nextNode();) {
		const node = walker.currentNode.parentElement;
		if (walker.currentNode.textContent.trim() && e2e.shown(node)) check(node, getComputedStyle(node), walker.currentNode.textContent);
	}
	for (const node of document.querySelectorAll("[placeholder]")) check(node, getComputedStyle(node, "::placeholder"), node.placeholder);
	for (const node of document.querySelectorAll("input, select, textarea")) if (node.value) check(node, getComputedStyle(node), node.value);
	return found;
})()`

// controls are the roles of interactive elements.
var controls = []string{"button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "menuitem", "spinbutton", "switch", "Date", "slider", "DisclosureTriangle", "option"}

// TestPage_HasContrastAndNames checks the contrast of every text in both themes
// and the name of every control.
func TestPage_HasContrastAndNames(t *testing.T) {
	is := is.New(t)
	b := openTab(t, populatedSite(t).url)
	total := 0
	axe := newAxe()
	visitScreens(b, func(name string) {
		t.Helper()
		t.Log(name)
		axe.check(b, name)
		for _, theme := range []string{"dark", "light"} {
			b.setMedia("prefers-color-scheme", theme)
			equal(b, lowContrast, []string{})
			if theme == "dark" {
				axe.check(b, name+", dark", "color-contrast", "link-in-text-block")
			}
		}
		tree := call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		for _, node := range tree.Nodes {
			if node.Ignored || node.Role == nil || !slices.Contains(controls, strings.Trim(string(node.Role.Value), `"`)) {
				continue
			}
			total++
			is.True(node.Name != nil && strings.Trim(string(node.Name.Value), `" `) != "")
		}
		// ids that are not unique
		equal(b, `[...document.querySelectorAll("[id]")].map((node) => node.id).filter((id, i, all) => all.indexOf(id) !== i)`, []string{})
		equal(b, `document.querySelectorAll("[role=status], [aria-live], [role=alert], [role=log]").length`, 2) // the summary of the screen, and messages
	})
	axe.report(t)
	is.True(total >= 100)

	ground := func(theme string) string {
		b.setMedia("prefers-color-scheme", theme)
		return eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	}
	is.Equal(ground("light"), "rgb(246, 242, 235)")
	is.Equal(ground("dark"), "rgb(23, 21, 19)")
	// test of the check itself
	eval[bool](b, `(document.querySelector("h1").style.color = getComputedStyle(document.body).backgroundColor, true)`)
	is.Equal(len(eval[[]string](b, lowContrast)), 1)
	eval[bool](b, `(document.querySelector("main").append(new Image()), true)`)
	before := len(axe.violations)
	axe.check(b, "")
	is.True(axe.err != nil || len(axe.violations) > before)
}

// TestPage_FitsNarrowWindow has a window of 1280 pixels at 400 % zoom, in the dark
// theme.
func TestPage_FitsNarrowWindow(t *testing.T) {
	is := is.New(t)
	b := openTab(t, populatedSite(t).url)
	b.resize(320, 640)
	b.setMedia("prefers-color-scheme", "dark")
	axe := newAxe()
	visitScreens(b, func(name string) {
		t.Helper()
		t.Log(name)
		axe.check(b, name)
		equal(b, `[...document.querySelectorAll("body *")].filter((node) => {
			const box = node.getBoundingClientRect();
			return box.right > innerWidth + 1 && box.width > 0 && box.height > 1 && e2e.shown(node) && !node.closest(".scroll, .visually-hidden, pre, thead");
		}).map((node) => node.tagName + "." + node.className + " " + Math.round(node.getBoundingClientRect().right)).slice(0, 3)`, []string{}) // wider than the window
		is.True(eval[int](b, `document.documentElement.scrollWidth`) <= 320)
		equal(b, `[...document.querySelectorAll(".button")].filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.innerText)`, []string{}) // cut off
		b.wait(`[...document.querySelectorAll(".screens a")].every((link) => link.getClientRects().length === 1 && link.offsetHeight < 45)`)                      // names stay on one line
	})
	axe.report(t)
}

func TestPage_RespectsReducedMotion(t *testing.T) {
	s := startSite(t, unprotected)
	animations := func(b *tab) int { return eval[int](b, `document.getAnimations().length`) }
	b := openTab(t, s.url)
	b.setMedia("prefers-reduced-motion", "reduce")
	b.visit(s.url + "?still#/symbols")
	b.waitText("No folders yet")
	eval[bool](b, `(document.body.insertAdjacentElement("beforeend", Object.assign(document.createElement("div"), { className: "skeleton" })).ariaBusy = "true", true)`)
	is.New(t).Equal(animations(b), 0)
	b.setMedia("prefers-reduced-motion", "no-preference")
	b.wait(`document.getAnimations().length > 0`)
}

func TestPage_SupportsForcedColors(t *testing.T) {
	is := is.New(t)
	b := openKeys(startSite(t))
	b.setMedia("forced-colors", "active")
	b.wait(`matchMedia("(forced-colors: active)").matches`)
	is.True(eval[string](b, `getComputedStyle(document.querySelector(".badge")).borderStyle`) == "solid")
	is.True(eval[string](b, `getComputedStyle(document.querySelector("nav [aria-current]")).outlineStyle`) == "solid")
}

// TestPage_WorksBelowAnyPrefix opens the console without the trailing slash.
func TestPage_WorksBelowAnyPrefix(t *testing.T) {
	t.Parallel()
	// choose serves paths for which isPage is true with page.
	choose := func(page, api http.Handler, isPage func(path string) bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isPage(r.URL.Path) {
				page.ServeHTTP(w, r)
			} else {
				api.ServeHTTP(w, r)
			}
		})
	}
	for name, c := range map[string]struct {
		mount func(s *site) http.Handler
		start string
		end   string
	}{
		"nested prefixes": {func(s *site) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/x/y/api/", http.StripPrefix("/x/y/api", s.api()))
			mux.Handle("/x/y/console/", http.StripPrefix("/x/y/console", s.console("")))
			return mux
		}, "x/y/console", "x/y/console/#/keys"},
		"special characters, without a mux": {func(s *site) http.Handler {
			page, api := http.StripPrefix("/o dd:ä&%", s.console("../v1:a")), http.StripPrefix("/v1:a", s.api())
			return choose(page, api, func(path string) bool { return !strings.HasPrefix(path, "/v1:a/") })
		}, "o%20dd:%C3%A4&%25", "o%20dd:%C3%A4&%25/#/keys"},
		"API at the root": {func(s *site) http.Handler {
			return choose(s.console("./"), s.api(), func(path string) bool {
				return path == "/" || slices.Contains(console.Files(), path[1:])
			})
		}, "", "#/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.listen(c.mount(s))
			b := openTab(t, s.url+c.start)
			b.enterKey("Admin key", apitest.AdminKey)
			b.waitText("Keys by status")
			b.click("Symbols")
			b.wait(`location.hash === "#/symbols"`)
			b.click("Keys")
			b.waitText(keyName)
			equal(b, `location.href`, s.url+c.end)
		})
	}
}

// TestPage_PolicyBlocksInjection does what an injected script would do, and
// checks that a tab reports it.
func TestPage_PolicyBlocksInjection(t *testing.T) {
	is := is.New(t)
	b := openTab(t, startSite(t).url)
	other := anotherSite(t, unprotected)
	other.listen(other.handler())
	b.waitText("Admin key required")
	equal(b, `(() => { try { document.body.innerHTML = "<b>"; return "done"; } catch (error) { return error.name; } })()`, "TypeError")
	equal(b, `(() => { try { document.body.append(Object.assign(document.createElement("script"), { src: "main.js" })); return "done"; } catch (error) { return error.name; } })()`, "TypeError")
	equal(b, `fetch(`+quote(other.url+"api/symbol/folders")+`, { mode: "no-cors" }).then(() => "done", () => "blocked")`, "blocked")
	eval[bool](b, `(document.querySelector("h1").setAttribute("style", "color: red"), true)`)
	is.True(eval[string](b, `getComputedStyle(document.querySelector("h1")).color`) != "rgb(255, 0, 0)")
	b.wait(`violations.length >= 4`)
	directives := strings.Join(eval[[]string](b, `violations`), "\n")
	for _, directive := range []string{"require-trusted-types-for", "connect-src", "style-src-attr"} {
		is.True(strings.Contains(directives, directive))
	}
	framed := eval[bool](b, `new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.onload = () => done(Boolean(frame.contentDocument?.querySelector("main")));
		frame.src = "index.html";
		document.body.append(frame);
	})`)
	is.True(!framed)
	for _, text := range []string{"Content Security Policy", "TrustedHTML", "TrustedScriptURL"} {
		b.ignoreProblem(text)
	}
	b.mu.Lock()
	reported := len(b.problems)
	b.mu.Unlock()
	is.True(reported >= 3)
	eval[bool](b, `(violations.length = 0, true)`)
}

func TestPage_SupportsBackAndUnknownFragments(t *testing.T) {
	s := populatedSite(t)
	b := openWithClientKey(s, "symbols")
	b.click("Gate valve")
	b.wait(`document.querySelector("dialog")`)
	eval[bool](b, `(history.back(), true)`)
	b.wait(`!document.querySelector("dialog") && location.hash === "#/symbols"`)
	b.waitText("Gate valve")
	for _, screen := range []string{"Keys", "Exports", "API", "Overview", "Symbols"} {
		b.click(screen)
		b.wait(fmt.Sprintf(`document.title === %s`, quote(screen+" · Canvasback")))
		b.waitFocus(map[bool]string{true: `e2e.field("Admin key")`, false: `document.getElementById("title")`}[screen == "Keys" || screen == "Overview"])
		b.wait(fmt.Sprintf(`document.querySelector("[aria-current]").innerText === %s`, quote(screen)))
	}
	eval[bool](b, `(location.hash = "#/nonsense", true)`)
	b.wait(`document.title === "Overview · Canvasback"`)
}

// TestPage_LeavesKeysToTheBrowser presses Alt+Left, which goes back, in the grid and in a dialog.
func TestPage_LeavesKeysToTheBrowser(t *testing.T) {
	s, b := openValves(t, "Gate valve", "Ball valve")
	const press = `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", altKey: true, bubbles: true, cancelable: true }))`
	s.is.True(eval[bool](b, `document.getElementById("symbol-2").focus() ?? `+press))
	b.click("Ball valve")
	b.waitText("40 × 20")
	s.is.True(eval[bool](b, press))
	equal(b, `document.querySelector("dialog h2").innerText`, "Ball valve")
}

// TestPage_HeldKeyActsOnce holds the key that takes back the last change, and clicks twice.
func TestPage_HeldKeyActsOnce(t *testing.T) {
	var posts atomic.Int64
	s := startSiteBehind(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/folders") {
			posts.Add(1)
		}
		return false
	}, unprotected)
	s.folder("Valves", "Gate valve")
	b := openSymbols(s, "1 symbol")
	b.rename("Actions for Gate valve", "Rename…", "Mine")
	b.waitText("Gate valve renamed.")
	equal(b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "u", repeat: true, bubbles: true })) && Boolean(document.querySelector(".undo:not([aria-busy])"))`, true)
	b.typeKeys("u")
	b.waitText("Undone.")
	b.click("New folder")
	b.fill("Name", "Pumps")
	eval[any](b, `e2e.button("Create folder").click(), e2e.button("Create folder")?.click()`)
	b.waitText("This folder is empty")
	s.is.Equal(posts.Load(), int64(1))
}

// TestPage_ToastsReturnTheFocus takes back a change with the keyboard.
func TestPage_ToastsReturnTheFocus(t *testing.T) {
	_, b := openValves(t, "Gate valve")
	for _, name := range []string{"Undo", "Dismiss"} {
		b.rename("Actions for Gate valve", "Rename…", "Mine")
		b.waitText("Gate valve renamed.")
		b.waitFocus(`document.getElementById("symbol-1-menu")`)
		eval[bool](b, `e2e.button(`+quote(name)+`).focus() ?? true`)
		b.typeKeys(kb.Enter)
		b.waitNoText("Gate valve renamed.")
		b.waitFocus(`document.getElementById("symbol-1-menu")`)
	}
}
