package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi/console"
)

// walk goes through all screens. see is called on each of them, and with each
// dialog and menu that looks different.
func walk(b *tab, see func(name string)) {
	b.t.Helper()
	b.sees("Admin key required")
	see("key form")
	b.giveKey("Admin key", "wrong")
	b.sees("Key rejected")
	see("refused key")
	b.giveKey("Admin key", adminKey)
	b.wait(`e2e.button("Create key")`)
	see("keys")
	b.press("More for Test key")
	b.wait(`document.querySelector(".menu")`)
	see("menu")
	b.press("Change expiry…")
	b.press("Date")
	see("expiry")
	b.press("Cancel")
	b.press("More for Test key")
	b.press("Rotate…")
	see("question")
	b.press("Rotate key")
	b.wait(`e2e.button("Copy key")`)
	see("raw key")
	b.press("Use it in this console")
	b.press("Done")
	b.press("Access admin client")
	see("access")
	b.press("Close")
	b.press("Symbols")
	b.wait(`document.querySelectorAll(".preview img").length === 2`)
	see("symbols")
	b.press("Gate valve")
	b.wait(`document.querySelector("dialog")`)
	see("symbol")
	b.press("Close")
	b.fill("Filter by name or type", "no such thing")
	b.sees("No symbol matches")
	see("nothing")
	b.press("Exports")
	b.fill("Sources", strings.Join([]string{source("plan"), source("nope")}, "\n"))
	b.press("Download 2 files as a zip")
	b.sees("1 file skipped")
	see("exports")
	b.fill("Sources", source("nope"))
	b.press("Download")
	b.sees("No export is registered")
	see("failure")
	b.press("API")
	b.wait(`document.querySelector(".operation")`)
	b.pressNode(`[...document.querySelectorAll(".operation summary")].find((one) => one.innerText.includes("POST"))`)
	b.sees("With curl")
	see("reference")
}

// walked is a site with something on every screen.
func walked(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.listen(s.withDocument(s.handler()))
	valves := s.folder("Valves", "Gate valve", "Ball valve")
	s.symbol(valves.ID, "A note", "text/plain", strings.Repeat("not a picture ", 20))
	s.folder("Pumps")
	s.export(source("plan"), "plan.pdf", []byte("the plan"))
	return s
}

// media emulates features of the reader's system.
func (b *tab) media(features ...string) {
	b.t.Helper()
	var list []*emulation.MediaFeature
	for i := 0; i < len(features); i += 2 {
		list = append(list, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: list})
}

// lowContrast lists the texts that stand out from their ground by less than
// WCAG 2.2 asks for (1.4.3), as "ratio text".
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

// controls are the roles of what can be used.
var controls = []string{"button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "menuitem", "spinbutton", "switch", "Date", "slider", "DisclosureTriangle", "option"}

// TestPage_isReadAndNamed looks at the contrast of every text in both themes,
// and at the name of every control.
func TestPage_isReadAndNamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := open(t, walked(t).url)
	total := 0
	walk(b, func(name string) {
		t.Helper()
		for _, theme := range []string{"dark", "light"} {
			b.media("prefers-color-scheme", theme)
			for _, text := range eval[[]string](b, lowContrast) {
				t.Errorf("%s, %s: %s", name, theme, text)
			}
		}
		tree := call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		for _, node := range tree.Nodes {
			if node.Ignored || node.Role == nil || !slices.Contains(controls, strings.Trim(string(node.Role.Value), `"`)) {
				continue
			}
			total++
			if node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "" {
				t.Errorf("%s: a %s has no name", name, node.Role.Value)
			}
		}
		if ids := eval[[]string](b, `[...document.querySelectorAll("[id]")].map((node) => node.id).filter((id, i, all) => all.indexOf(id) !== i)`); len(ids) > 0 {
			t.Errorf("%s: ids are not unique: %v", name, ids)
		}
		if n := eval[int](b, `document.querySelectorAll("[role=status], [aria-live], [role=alert], [role=log]").length`); n != 1 {
			t.Errorf("%s: there are %d live regions", name, n)
		}
	})
	if total < 100 {
		t.Errorf("only %d controls were seen", total)
	}

	ground := func(theme string) string {
		b.media("prefers-color-scheme", theme)
		return eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	}
	is.Equal(ground("light"), "rgb(246, 242, 235)")
	is.Equal(ground("dark"), "rgb(23, 21, 19)")
	// the check itself
	eval[bool](b, `(document.querySelector("h1").style.color = getComputedStyle(document.body).backgroundColor, true)`)
	is.Equal(len(eval[[]string](b, lowContrast)), 1)
}

// TestPage_narrow is a window of 1280 pixels at 400 %.
func TestPage_narrow(t *testing.T) {
	t.Parallel()
	b := open(t, walked(t).url)
	b.size(320, 640)
	walk(b, func(name string) {
		t.Helper()
		for _, wide := range eval[[]string](b, `[...document.querySelectorAll("body *")].filter((node) => {
			const box = node.getBoundingClientRect();
			return box.right > innerWidth + 1 && box.width > 0 && box.height > 1 && e2e.shown(node) && !node.closest(".scroll, .visually-hidden, pre, thead");
		}).map((node) => node.tagName + "." + node.className + " " + Math.round(node.getBoundingClientRect().right)).slice(0, 3)`) {
			t.Errorf("%s: %s reaches out of the window", name, wide)
		}
		if width := eval[int](b, `document.documentElement.scrollWidth`); width > 320 {
			t.Errorf("%s: the page is %d wide", name, width)
		}
	})
}

func TestPage_moves(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t, unprotected)
	moving := func(b *tab) int { return eval[int](b, `document.getAnimations().length`) }
	b := open(t, s.url)
	b.media("prefers-reduced-motion", "reduce")
	b.visit(s.url + "?still#/symbols")
	b.sees("No folders yet")
	eval[bool](b, `(document.body.insertAdjacentElement("beforeend", Object.assign(document.createElement("div"), { className: "skeleton" })).ariaBusy = "true", true)`)
	is.Equal(moving(b), 0)
	b.media("prefers-reduced-motion", "no-preference")
	b.wait(`document.getAnimations().length > 0`)
}

func TestPage_forcedColors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := openKeys(serve(t))
	b.media("forced-colors", "active")
	b.wait(`matchMedia("(forced-colors: active)").matches`)
	is.True(eval[string](b, `getComputedStyle(document.querySelector(".badge")).borderStyle`) == "solid")
	is.True(eval[string](b, `getComputedStyle(document.querySelector("nav [aria-current]")).outlineStyle`) == "solid")
}

// TestPage_underAnyPrefix has the console where nobody would put it, reached
// without the slash at its end.
func TestPage_underAnyPrefix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mount func(s *site) http.Handler
		start string
		end   string
	}{
		"both deep down": {func(s *site) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/x/y/api/", http.StripPrefix("/x/y/api", s.api()))
			mux.Handle("/x/y/console/", http.StripPrefix("/x/y/console", s.console("")))
			return mux
		}, "x/y/console", "x/y/console/#/keys"},
		"odd letters, in a host that is no mux": {func(s *site) http.Handler {
			api, page := http.StripPrefix("/v1:a", s.api()), http.StripPrefix("/o dd:ä&%", s.console("../v1:a"))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/v1:a/") {
					api.ServeHTTP(w, r)
					return
				}
				page.ServeHTTP(w, r)
			})
		}, "o%20dd:%C3%A4&%25", "o%20dd:%C3%A4&%25/#/keys"},
		"above the API": {func(s *site) http.Handler {
			api, page := s.api(), s.console("./")
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name := strings.TrimPrefix(r.URL.Path, "/"); name == "" || slices.Contains(console.Files(), name) {
					page.ServeHTTP(w, r)
					return
				}
				api.ServeHTTP(w, r)
			})
		}, "", "#/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := newSite(t)
			s.listen(c.mount(s))
			b := open(t, s.url+c.start)
			b.giveKey("Admin key", adminKey)
			b.sees("Test key")
			b.press("Symbols")
			b.wait(`location.hash === "#/symbols"`)
			b.press("Keys")
			b.sees("Test key")
			is.Equal(eval[string](b, `location.href`), s.url+c.end)
		})
	}
}

// TestPage_policyHolds tries what a page that had been taken over would do, and
// makes sure that the tests would notice.
func TestPage_policyHolds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	stranger := serve(t, unprotected)
	b := open(t, serve(t).url)
	b.sees("Admin key required")
	is.Equal(eval[string](b, `(() => { try { document.body.innerHTML = "<b>"; return "done"; } catch (error) { return error.name; } })()`), "TypeError")
	is.Equal(eval[string](b, `(() => { try { document.body.append(Object.assign(document.createElement("script"), { src: "main.js" })); return "done"; } catch (error) { return error.name; } })()`), "TypeError")
	is.Equal(eval[string](b, `fetch(`+quote(stranger.url+"api/symbol/folders")+`, { mode: "no-cors" }).then(() => "done", () => "refused")`), "refused")
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
	for _, what := range []string{"Content Security Policy", "TrustedHTML", "TrustedScriptURL"} {
		b.excuse(what)
	}
	b.mu.Lock()
	noticed := len(b.troubles)
	b.mu.Unlock()
	is.True(noticed >= 3)
	eval[bool](b, `(violations.length = 0, true)`)
}

func TestPage_backAndReload(t *testing.T) {
	t.Parallel()
	s := walked(t)
	b := openWithClientKey(s, "symbols")
	b.press("Gate valve")
	b.wait(`document.querySelector("dialog")`)
	eval[bool](b, `(history.back(), true)`)
	b.wait(`!document.querySelector("dialog") && location.hash === "#/symbols"`)
	b.sees("Gate valve")
	for _, screen := range []string{"Keys", "Exports", "API", "Symbols"} {
		b.press(screen)
		b.wait(fmt.Sprintf(`document.title === %s`, quote(screen+" · Canvasback")))
		b.waitFocus(map[bool]string{true: `e2e.field("Admin key")`, false: `document.getElementById("title")`}[screen == "Keys"])
		b.wait(fmt.Sprintf(`document.querySelector("[aria-current]").innerText === %s`, quote(screen)))
	}
	eval[bool](b, `(location.hash = "#/nonsense", true)`)
	b.wait(`document.title === "Keys · Canvasback"`)
}
