package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	logs "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a test waits for what must come. The machines that run
// these tests are busy.
const patience = 40 * time.Second

// browserNames are tried in this order.
var browserNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell", "microsoft-edge"}

// started is the one browser of all tests.
var started struct {
	once sync.Once
	ctx  context.Context
	dir  string // of its downloads
	stop func()
	err  error
}

// errNoBrowser lets the tests be skipped.
var errNoBrowser = errors.New("no browser: install chromium or set CANVASBACK_TEST_BROWSER")

func TestMain(m *testing.M) {
	code := m.Run()
	if started.stop != nil {
		started.stop()
		os.RemoveAll(started.dir) // the browser has let go of it
	}
	os.Exit(code)
}

// sharedBrowser starts the browser when the first test asks for it.
func sharedBrowser(t *testing.T) context.Context {
	t.Helper()
	started.once.Do(func() {
		if started.ctx, started.stop, started.err = startBrowser(); started.err == nil {
			started.dir, started.err = os.MkdirTemp("", "canvasback-e2e-")
		}
	})
	if started.err == errNoBrowser && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + started.err.Error())
	}
	if started.err != nil {
		t.Fatal(started.err)
	}
	return started.ctx
}

func startBrowser() (ctx context.Context, stop func(), err error) {
	program := os.Getenv("CANVASBACK_TEST_BROWSER")
	for _, name := range browserNames {
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
		options = append(options, chromedp.NoSandbox) // it does not start as root with it
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(log.Printf))
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		cancelAllocator()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return ctx, func() {
		last, enough := context.WithTimeout(ctx, patience)
		defer enough()
		if err := chromedp.Cancel(last); err != nil { // closes it and removes what it wrote
			log.Print("close the browser: ", err)
		}
		cancelAllocator()
	}, nil
}

// tab is a tab of a browser without a past. It notes what no page of ours may
// do, and fails the test for it at the end.
type tab struct {
	t         *testing.T
	ctx       context.Context
	downloads string // where files go

	mu       sync.Mutex
	requests []*network.Request
	troubles []string
	excused  []string // parts of troubles that the test wants
}

// inPage is run in each document before its own scripts.
const inPage = `
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
window.e2e = {
	// top is where a reader can act: the dialog on top, if there is one. One
	// that closes gives the focus back first.
	top() {
		const dialogs = [...document.querySelectorAll("dialog")];
		return dialogs.every((one) => one.open) ? dialogs.pop() ?? document : document.createElement("p");
	},
	shown: (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest("[hidden]"),
	// name is what a control is called; ornaments are no part of it.
	name(node) {
		const spoken = (one) => one.ariaHidden === "true" || one.hidden ? "" : one.children.length ? [...one.childNodes].map((child) => child.innerText === undefined ? child.textContent : spoken(child)).join(" ") : one.innerText;
		return (node.getAttribute("aria-label") ?? spoken(node)).trim().replace(/\s+/g, " ");
	},
	// button finds what can be pressed by its name.
	button: (name) => [...e2e.top().querySelectorAll("button, a, summary, label, [role=menuitem]")]
		.find((node) => e2e.shown(node) && e2e.name(node) === name),
	// field finds a control by its label.
	field: (name) => [...e2e.top().querySelectorAll("input, select, textarea")]
		.find((node) => (node.getAttribute("aria-label") ?? node.labels[0]?.innerText ?? "").trim() === name),
	// place is where a pointer meets an element, or null if something covers it.
	place(node) {
		if (!node || node.getAttribute("aria-busy")) return null;
		node.scrollIntoView({ block: "center", behavior: "instant" });
		const { x, y, width, height } = node.getBoundingClientRect();
		const at = { x: x + width / 2, y: y + height / 2 };
		const hit = document.elementFromPoint(at.x, at.y);
		return hit && (node.contains(hit) || hit.contains(node)) ? at : null;
	},
	text: () => document.body.innerText,
};`

// open opens a tab on an address.
func open(t *testing.T, address string) *tab {
	t.Helper()
	parent := sharedBrowser(t)
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.downloads, err = os.MkdirTemp(started.dir, ""); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: inPage})
	if _, err := chromedp.CallBrowser(ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior:         browser.SetDownloadBehaviorBehaviorAllow,
		BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
		DownloadPath:     b.downloads,
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
			Permission:       &browser.PermissionDescriptor{Name: name},
			Setting:          browser.PermissionSettingGranted,
		}); err != nil {
			t.Fatal(err)
		}
	}
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.size(1280, 900)
	t.Cleanup(b.settle)
	b.visit(address)
	return b
}

// note is called with every event of the tab.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, event.Request)
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, "exception: "+event.ExceptionDetails.Text+" "+describe(event.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.ConsoleAPICalledTypeError || event.Type == runtime.ConsoleAPICalledTypeWarning || event.Type == runtime.ConsoleAPICalledTypeAssert {
			text := "console:"
			for _, arg := range event.Args {
				text += " " + describe(arg)
			}
			b.troubles = append(b.troubles, text)
		}
	case *logs.EventEntryAdded:
		// An answer with an error status is an entry too, and shown by the page.
		if event.Entry.Source != logs.EntrySourceNetwork && event.Entry.Level != logs.EntryLevelVerbose {
			b.troubles = append(b.troubles, "log: "+event.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		b.troubles = append(b.troubles, "dialog: "+event.Message)
	case *page.EventWindowOpen:
		b.troubles = append(b.troubles, "window: "+event.URL)
	}
}

func describe(object *runtime.RemoteObject) string {
	if object == nil {
		return ""
	}
	return object.Description + string(object.Value)
}

// excuse lets troubles pass that a test brings about.
func (b *tab) excuse(part string) { b.excused = append(b.excused, part) }

// settle looks at the end of a test at what the tab has done.
func (b *tab) settle() {
	if b.ctx.Err() != nil {
		return
	}
	for _, violation := range eval[[]string](b, `violations`) {
		b.t.Errorf("content security policy: %s", violation)
	}
	b.mu.Lock()
	troubles, requests := slices.Clone(b.troubles), slices.Clone(b.requests)
	b.mu.Unlock()
	for _, trouble := range troubles {
		if !slices.ContainsFunc(b.excused, func(part string) bool { return strings.Contains(trouble, part) }) {
			b.t.Error(trouble)
		}
	}
	for _, request := range requests {
		u, err := url.Parse(request.URL)
		if err != nil || u.Scheme != "blob" && u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
			b.t.Errorf("a request leaves this machine: %.200s", request.URL)
		}
		if plain, err := url.QueryUnescape(request.URL); err != nil || strings.Contains(plain, "cbk_") || strings.Contains(plain, adminKey) {
			b.t.Errorf("a key is in the address %.200s", request.URL)
		}
	}
	if b.t.Failed() {
		b.t.Logf("the page shows:\n%.3000s", eval[string](b, `e2e.text()`))
	}
}

// do runs actions and fails the test if they do.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// visit loads a page.
func (b *tab) visit(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// eval evaluates an expression, and awaits it if it is a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// wait polls until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, "Boolean("+expression+")"); time.Sleep(15 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("it never came that %s; the page shows:\n%.3000s", expression, eval[string](b, `e2e.text()`))
		}
	}
}

// sees waits for a text on the page, and lacks for the end of one.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.wait(`e2e.text().includes(` + quote(text) + `)`)
}

func (b *tab) lacks(text string) {
	b.t.Helper()
	b.wait(`!e2e.text().includes(` + quote(text) + `)`)
}

// press presses the button, link or label of a name with the pointer.
func (b *tab) press(name string) {
	b.t.Helper()
	b.pressNode(`e2e.button(` + quote(name) + `)`)
}

// pressNode presses what an expression finds.
func (b *tab) pressNode(expression string) {
	b.t.Helper()
	at := b.place(expression)
	b.do(chromedp.MouseClickXY(at.X, at.Y))
}

type point struct{ X, Y float64 }

// place waits until a pointer would meet what an expression finds.
func (b *tab) place(expression string) point {
	b.t.Helper()
	b.wait(`e2e.place(` + expression + `)`)
	return eval[point](b, `e2e.place(`+expression+`)`)
}

// fill types a text into the field of a label, in place of what is there.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	b.wait(`e2e.field(` + quote(label) + `)`)
	eval[bool](b, `(e2e.field(`+quote(label)+`).focus(), document.activeElement.select?.(), true)`)
	b.do(chromedp.KeyEvent(kb.Backspace))
	b.typing(text)
}

// typing types a text where the focus is.
func (b *tab) typing(text string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(text))
}

// size sets the size of the window in CSS pixels.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// call runs a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// quote is text as a string of JavaScript.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
