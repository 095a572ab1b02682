package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	logs "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/storage/testflag"
)

// timeout is the limit on each wait of a test, for busy machines.
const timeout = 100 * time.Second

const pollInterval = 15 * time.Millisecond

// shellNames and browserNames are looked up in PATH in this order. The headless
// shell takes half of the CPU time of a browser, but lacks chrome://downloads.
var (
	shellNames   = []string{"chromium-headless-shell", "headless_shell"}
	browserNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"}
)

// chrome is a process of Chromium that tests share.
type chrome struct {
	names []string // of programs, the first that is found

	mu      sync.Mutex
	ctx     context.Context // ends if the process exits
	crashed bool            // before ctx
	dir     string          // for downloads
	stop    func()
}

var (
	shell   = chrome{names: append(shellNames, browserNames...)}
	browser = chrome{names: browserNames}
)

// errNoBrowser skips the tests.
var errNoBrowser = errors.New("no browser: install chromium or set CANVASBACK_TEST_BROWSER")

// mainFlows are the tests that run if none is named, outside CI.
const mainFlows = "^Test(Keys_AreCreatedUsedAndChanged" +
	"|Symbols_(FoldersAreCreatedRenamedAndDeleted|AreShownRenamedMovedAndDeleted|ImportShowsDryRunFirst|DoNotRunScripts)" +
	"|Exports_AreRegisteredAndDownloaded|Picker_FollowsChanges|Page_(MissingKeys|PolicyBlocksInjection)|States_RejectedKeys)$"

func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run").Value; run.String() == "" && !testflag.Thorough() {
		run.Set(mainFlows) // has no error
	}
	code := m.Run()
	if code != 0 && (shell.hasCrashed() || browser.hasCrashed()) {
		log.Print("the browser has crashed: all tests run once more")
		code = m.Run()
	}
	for _, c := range []*chrome{&shell, &browser} {
		if c.stop != nil {
			c.stop()
			os.RemoveAll(c.dir)
		}
	}
	os.Exit(code)
}

// hasCrashed reports whether a process has exited during a test. The headless shell of Chromium
// 156 did so twice in some 40 runs, by a failed assertion of its own.
func (c *chrome) hasCrashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed || c.ctx != nil && c.ctx.Err() != nil
}

// start returns the context of the browser. It starts it if this is the first call, or
// if it has crashed, which fails only the tests of that moment.
func (c *chrome) start(t *testing.T) context.Context {
	t.Helper()
	is := is.New(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil && c.ctx.Err() == nil {
		return c.ctx
	}
	ctx, stop, err := startBrowser(c.names)
	if err == errNoBrowser && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + err.Error())
	}
	is.NoErr(err)
	c.crashed = c.crashed || c.ctx != nil
	c.ctx, c.stop = ctx, stop
	if c.dir == "" {
		c.dir, err = os.MkdirTemp("", "canvasback-e2e-")
		is.NoErr(err)
	}
	return ctx
}

func startBrowser(names []string) (ctx context.Context, stop func(), err error) {
	program := os.Getenv("CANVASBACK_TEST_BROWSER")
	for _, name := range names {
		if program == "" {
			program, _ = exec.LookPath(name)
		}
	}
	if program == "" {
		return nil, nil, errNoBrowser
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-GB"),
		chromedp.Env("TZ=UTC"),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root cannot start it with a sandbox
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(log.Printf))
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		cancelAllocator()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return ctx, func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := chromedp.Cancel(ctx); err != nil { // closes the browser and removes its files
			log.Print("close the browser: ", err)
		}
		cancelAllocator()
	}, nil
}

// tab is a tab with its own browser context. At the end of the test it reports
// problems that no page may have, such as exceptions and requests to other hosts.
type tab struct {
	t         *testing.T
	ctx       context.Context
	firefox   *firefox // nil in Chromium
	downloads string   // directory

	mu       sync.Mutex
	requests []*network.Request
	problems []string
	ignored  []string // substrings of problems to ignore
}

// pageScript runs in each document before its own scripts.
const pageScript = `
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
window.e2e = {
	// top returns the top dialog or the document. It returns an empty element while
	// a closed dialog is still moving the focus.
	top() {
		const dialogs = [...document.querySelectorAll("dialog")];
		return dialogs.every((one) => one.open) ? dialogs.pop() ?? document : document.createElement("p");
	},
	shown: (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest("[hidden]"),
	// name returns the name of a control without decorative content.
	name(node) {
		const spoken = (one) => one.ariaHidden === "true" || one.hidden ? "" : one.children.length ? [...one.childNodes].map((child) => child.innerText === undefined ? child.textContent : spoken(child)).join(" ") : one.innerText;
		return (node.getAttribute("aria-label") ?? spoken(node)).trim().replace(/\s+/g, " ");
	},
	// button finds a clickable element by name.
	button: (name) => [...e2e.top().querySelectorAll("button, a, summary, label, [role=menuitem]")]
		.find((node) => e2e.shown(node) && e2e.name(node) === name),
	// field finds an input by label.
	field: (name) => [...e2e.top().querySelectorAll("input, select, textarea")]
		.find((node) => (node.getAttribute("aria-label") ?? node.labels[0]?.innerText ?? "").trim() === name),
	// clickPoint returns the center of an element, or null if it is disabled, busy or covered.
	clickPoint(node) {
		if (!node?.isConnected || node.disabled || node.getAttribute("aria-busy")) return null;
		node.scrollIntoView({ block: "center", behavior: "instant" });
		const { x, y, width, height } = node.getBoundingClientRect();
		const at = { x: x + width / 2, y: y + height / 2 };
		const hit = document.elementFromPoint(at.x, at.y);
		return hit && (node.contains(hit) || hit.contains(node)) ? at : null;
	},
	// aim returns the clickPoint of an element that the next click or drop must hit. The
	// page gets no event elsewhere, such as where the element was before it moved.
	aim(node) {
		const at = e2e.clickPoint(node);
		if (at) e2e.target = node;
		return at;
	},
	missed: () => Boolean(e2e.target),
	text: () => document.body.innerText,
};
for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "dragenter", "dragover", "drop"]) {
	addEventListener(type, (e) => {
		const target = e2e.target;
		if (!target || !e.isTrusted) return;
		const hit = target.isConnected && (target.contains(e.target) || e.target.contains(target));
		if (!hit) e.stopImmediatePropagation(), e.preventDefault();
		else if (type === "click" || type === "drop") e2e.target = undefined;
	}, true);
}`

// openTab opens a tab with a URL.
func openTab(t *testing.T, pageURL string) *tab {
	t.Helper()
	return shell.openTab(t, pageURL)
}

func (c *chrome) openTab(t *testing.T, pageURL string) *tab {
	t.Helper()
	is := is.New(t)
	ctx, cancel := chromedp.NewContext(c.start(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	is.NoErr(chromedp.Do(ctx))
	var err error
	b.downloads, err = os.MkdirTemp(c.dir, "")
	is.NoErr(err)
	is.NoErr(chromedp.Listen(ctx, b.record))
	call(b, network.Enable, network.EnableParams{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: pageScript})
	_, err = chromedp.CallBrowser(ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior:         cdpbrowser.SetDownloadBehaviorBehaviorAllow,
		BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
		DownloadPath:     b.downloads,
	})
	is.NoErr(err)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err = chromedp.CallBrowser(ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
			Permission:       &cdpbrowser.PermissionDescriptor{Name: name},
			Setting:          cdpbrowser.PermissionSettingGranted,
		})
		is.NoErr(err)
	}
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.resize(1280, 900)
	t.Cleanup(b.checkProblems)
	b.visit(pageURL)
	return b
}

// record records an event of the tab.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, event.Request)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+event.ExceptionDetails.Text+" "+describe(event.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.ConsoleAPICalledTypeError || event.Type == runtime.ConsoleAPICalledTypeWarning || event.Type == runtime.ConsoleAPICalledTypeAssert {
			text := "console:"
			for _, arg := range event.Args {
				text += " " + describe(arg)
			}
			b.problems = append(b.problems, text)
		}
	case *logs.EventEntryAdded:
		// Error responses are entries too; the page shows them.
		if event.Entry.Source != logs.EntrySourceNetwork && event.Entry.Level != logs.EntryLevelVerbose {
			b.problems = append(b.problems, "log: "+event.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "dialog: "+event.Message)
	case *page.EventWindowOpen:
		b.problems = append(b.problems, "window: "+event.URL)
	}
}

func describe(object *runtime.RemoteObject) string {
	if object == nil {
		return ""
	}
	return object.Description + string(object.Value)
}

// ignoreProblem ignores problems that contain a text.
func (b *tab) ignoreProblem(part string) { b.ignored = append(b.ignored, part) }

// checkProblems fails the test if the tab has a problem.
func (b *tab) checkProblems() {
	if b.ctx.Err() != nil {
		return
	}
	for _, violation := range eval[[]string](b, `violations`) {
		b.t.Errorf("content security policy: %s", violation)
	}
	b.mu.Lock()
	problems, requests := slices.Clone(b.problems), slices.Clone(b.requests)
	b.mu.Unlock()
	for _, problem := range problems {
		if !slices.ContainsFunc(b.ignored, func(part string) bool { return strings.Contains(problem, part) }) {
			b.t.Error(problem)
		}
	}
	for _, request := range requests {
		u, err := url.Parse(request.URL)
		if err != nil || u.Scheme != "blob" && u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
			b.t.Errorf("request to another host: %.200s", request.URL)
		}
		if plain, err := url.QueryUnescape(request.URL); err != nil || strings.Contains(plain, "cbk_") || strings.Contains(plain, apitest.AdminKey) {
			b.t.Errorf("key in the URL %.200s", request.URL)
		}
	}
	if b.t.Failed() {
		b.t.Logf("the page shows:\n%.3000s", eval[string](b, `e2e.text()`))
	}
}

// sent returns how many requests of the page match.
func (b *tab) sent(matches func(*network.Request) bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range b.requests {
		if matches(request) {
			n++
		}
	}
	return n
}

// do runs actions and fails the test on an error.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	is := is.New(b.t)
	is.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	is.NoErr(chromedp.Do(ctx, actions...))
}

// visit loads a page.
func (b *tab) visit(pageURL string) {
	b.t.Helper()
	if b.firefox != nil {
		b.firefox.call("browsingContext.navigate", object{"context": b.firefox.page, "url": pageURL, "wait": "complete"}, nil)
		return
	}
	b.do(chromedp.Navigate(pageURL))
}

// eval evaluates an expression, and awaits it if it is a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	if b.firefox != nil {
		var value T
		b.firefox.evaluate(b.firefox.page, expression, &value)
		return value
	}
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// waitFor polls until a condition is true. If it times out, checkProblems logs what the
// page shows.
func (b *tab) waitFor(condition func() bool, what string) {
	b.t.Helper()
	for deadline := time.Now().Add(timeout); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			b.t.Fatalf("timeout waiting for %s", what)
		}
	}
}

// wait polls until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	b.waitFor(func() bool { return eval[bool](b, "Boolean("+expression+")") }, expression)
}

// equal polls until an expression has a value.
func equal[T any](b *tab, expression string, want T) {
	b.t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(pollInterval) {
		got := eval[T](b, expression)
		if reflect.DeepEqual(got, want) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s is %#v; want %#v", expression, got, want)
		}
	}
}

// waitText waits until the page has shown each text, waitNoText until it does not show one.
func (b *tab) waitText(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.wait(`e2e.text().includes(` + quote(text) + `)`)
	}
}

func (b *tab) waitNoText(text string) {
	b.t.Helper()
	b.wait(`!e2e.text().includes(` + quote(text) + `)`)
}

// click clicks the buttons, links or labels with the names, one after the other.
func (b *tab) click(names ...string) {
	b.t.Helper()
	for _, name := range names {
		b.clickNode(`e2e.button(` + quote(name) + `)`)
	}
}

// clickNode clicks the element of an expression.
func (b *tab) clickNode(expression string) {
	b.t.Helper()
	b.hit(expression, b.clickAt)
}

// hit does something at the element of an expression, again if it has missed it.
func (b *tab) hit(expression string, do func(at point)) {
	b.t.Helper()
	b.waitFor(func() bool {
		do(b.pointOf("aim", expression))
		return !eval[bool](b, `e2e.missed()`)
	}, "a hit of "+expression)
}

func (b *tab) clickAt(at point) {
	b.t.Helper()
	if b.firefox != nil {
		b.firefox.click(at)
		return
	}
	b.do(chromedp.MouseClickXY(at.X, at.Y))
}

type point struct{ X, Y float64 }

// pointOf waits until the element of an expression can be clicked. The function is
// clickPoint or aim.
func (b *tab) pointOf(function, expression string) (at point) {
	b.t.Helper()
	b.waitFor(func() bool {
		found := eval[*point](b, `e2e.`+function+`(`+expression+`)`)
		if found != nil {
			at = *found
		}
		return found != nil
	}, "a place to click "+expression)
	return at
}

// fill replaces the text of the field with a label, in Chromium as if it was pasted. It
// tries again if the page moved the focus meanwhile.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	field := `e2e.field(` + quote(label) + `)`
	for filled := false; !filled; filled = eval[bool](b, `!`+field+` || `+field+`.value === `+quote(text)) {
		b.wait(field + `?.focus() || document.activeElement === ` + field)
		eval[bool](b, `(document.activeElement.select?.(), true)`)
		if b.firefox != nil {
			b.typeKeys(kb.Backspace + text)
		} else {
			b.typeKeys(kb.Backspace)
			call(b, input.InsertText, input.InsertTextParams{Text: text})
		}
	}
}

// typeKeys types text or keys of package kb into the focused element.
func (b *tab) typeKeys(keys string) {
	b.t.Helper()
	if b.firefox != nil {
		b.firefox.typeKeys(keys)
		return
	}
	b.do(chromedp.KeyEvent(keys))
}

// resize sets the size of the window in CSS pixels.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	if b.firefox != nil {
		b.firefox.call("browsingContext.setViewport", object{"context": b.firefox.page, "viewport": object{"width": width, "height": height}}, nil)
		return
	}
	b.do(chromedp.EmulateViewport(width, height))
}

// call runs a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	is := is.New(b.t)
	is.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	is.NoErr(err)
	return result
}

// quote returns text as a JavaScript string.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
