package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"
	"golang.org/x/net/websocket"
)

// firefox is a tab of a Firefox of its own, driven by WebDriver BiDi.
type firefox struct {
	conn   *websocket.Conn
	tab    *tab
	page   string // browsing context of the tab
	config string // that of a page with the rights of Firefox itself; version 140 has no other way to get them
	last   int    // id of a command
}

type bidiMessage struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
}

// object is a JSON object.
type object map[string]any

// openFirefox starts Firefox with a URL. It ends with the test.
func openFirefox(t *testing.T, pageURL string) *tab {
	t.Helper()
	program, err := exec.LookPath("firefox-esr")
	if err != nil {
		program, err = exec.LookPath("firefox")
	}
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: no Firefox: install firefox-esr")
	}
	is.New(t).NoErr(err)
	b := &tab{t: t, ctx: context.Background(), downloads: t.TempDir()}
	b.firefox = &firefox{tab: b}
	b.firefox.start(program)
	b.firefox.call("session.new", object{"capabilities": object{}}, nil)
	b.firefox.config, b.firefox.page = b.firefox.openPage(), b.firefox.openPage()
	b.firefox.call("browsingContext.navigate", object{"context": b.firefox.config, "url": "about:config", "wait": "complete"}, nil)
	b.firefox.call("session.subscribe", object{
		"events":   []string{"log.entryAdded", "network.beforeRequestSent", "browsingContext.userPromptOpened"},
		"contexts": []string{b.firefox.page}, // Firefox shows a downloaded PDF in another tab
	}, nil)
	b.firefox.call("script.addPreloadScript", object{"functionDeclaration": "() => {" + pageScript + "}"}, nil)
	b.resize(1000, 700) // smaller than in Chromium, since Firefox renders without a GPU
	t.Cleanup(b.checkProblems)
	b.visit(pageURL)
	b.firefox.chrome(`Services.wm.getMostRecentWindow("navigator:browser").gBrowser.selectedBrowser.focus()`) // not the URL bar
	return b
}

// start starts Firefox with a new profile and connects to it.
func (f *firefox) start(program string) {
	t := f.tab.t
	is := is.New(t)
	is.Helper()
	profile, err := os.MkdirTemp("", "canvasback-firefox-")
	is.NoErr(err)
	t.Cleanup(func() { os.RemoveAll(profile) })
	preferences := `user_pref("browser.download.folderList", 2); user_pref("browser.download.dir", ` + quote(f.tab.downloads) + `);`
	is.NoErr(os.WriteFile(filepath.Join(profile, "user.js"), []byte(preferences), 0o600))
	command := exec.Command(program, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0", "--remote-allow-system-access", "--remote-allow-origins=http://127.0.0.1")
	command.Env = append(os.Environ(), "TZ=UTC", "HOME="+profile)
	stderr, err := command.StderrPipe()
	is.NoErr(err)
	is.NoErr(command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	endpoint := ""
	lines := bufio.NewScanner(stderr)
	for endpoint == "" && lines.Scan() {
		_, endpoint, _ = strings.Cut(lines.Text(), "WebDriver BiDi listening on ")
	}
	if endpoint == "" {
		t.Fatal("Firefox does not listen: ", lines.Err())
	}
	go io.Copy(io.Discard, stderr)
	f.conn, err = websocket.Dial(endpoint+"/session", "", "http://127.0.0.1")
	is.NoErr(err)
}

// record records an event in the tab.
func (f *firefox) record(message bidiMessage) {
	var event struct {
		Level, Text, Type string // of a log entry
		Message           string // of a dialog
		Request           struct{ Method, URL string }
	}
	if err := json.Unmarshal(message.Params, &event); err != nil {
		event.Level, event.Text = "error", err.Error()
	}
	switch {
	case event.Request.URL != "":
		f.tab.requests = append(f.tab.requests, &network.Request{Method: event.Request.Method, URL: event.Request.URL})
	case event.Level == "error" || event.Level == "warn":
		f.tab.problems = append(f.tab.problems, event.Type+": "+event.Text)
	case message.Method == "browsingContext.userPromptOpened":
		f.tab.problems = append(f.tab.problems, "dialog: "+event.Message)
	}
}

// call runs a command and decodes its result. It records events that come first.
func (f *firefox) call(method string, params object, result any) {
	is := is.New(f.tab.t)
	is.Helper()
	encoded, err := json.Marshal(params)
	is.NoErr(err)
	f.last++
	f.conn.SetDeadline(time.Now().Add(timeout))
	is.NoErr(websocket.JSON.Send(f.conn, bidiMessage{ID: f.last, Method: method, Params: encoded}))
	for {
		var message bidiMessage
		is.NoErr(websocket.JSON.Receive(f.conn, &message))
		if message.ID != f.last {
			f.record(message)
			continue
		}
		if message.Error != "" {
			f.tab.t.Fatalf("%s %.500s: %s %s", method, encoded, message.Error, message.Message)
		}
		if result != nil {
			is.NoErr(json.Unmarshal(message.Result, result))
		}
		return
	}
}

// evaluate decodes the value of an expression in a browsing context.
func (f *firefox) evaluate(browsingContext, expression string, value any) {
	f.tab.t.Helper()
	var result struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	f.call("script.evaluate", object{
		"expression":   "(async () => JSON.stringify(await (" + expression + ")) ?? 'null')()",
		"target":       object{"context": browsingContext},
		"awaitPromise": true,
	}, &result)
	if result.ExceptionDetails.Text != "" {
		f.tab.t.Fatalf("%s: %s", expression, result.ExceptionDetails.Text)
	}
	is.New(f.tab.t).NoErr(json.Unmarshal([]byte(result.Result.Value), value))
}

// openPage opens a tab and returns its browsing context.
func (f *firefox) openPage() string {
	f.tab.t.Helper()
	var created struct{ Context string }
	f.call("browsingContext.create", object{"type": "tab"}, &created)
	return created.Context
}

// chrome evaluates an expression with the rights of Firefox itself.
func (f *firefox) chrome(expression string) {
	f.tab.t.Helper()
	var value any
	f.evaluate(f.config, expression, &value)
}

// setTheme sets the color scheme that media queries of the page see.
func (f *firefox) setTheme(theme string) {
	f.tab.t.Helper()
	f.chrome(fmt.Sprintf(`Services.prefs.setIntPref("layout.css.prefers-color-scheme.content-override", %d)`, map[string]int{"dark": 0, "light": 1}[theme]))
	f.tab.wait(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, theme))
}

func (f *firefox) act(source object) {
	f.tab.t.Helper()
	f.call("input.performActions", object{"context": f.page, "actions": []object{source}}, nil)
}

func (f *firefox) click(at point) {
	f.tab.t.Helper()
	f.act(object{"type": "pointer", "id": "mouse", "actions": []object{
		{"type": "pointerMove", "x": at.X, "y": at.Y}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
	}})
}

// bidiKeys are the keys of WebDriver for those of package kb.
var bidiKeys = strings.NewReplacer(kb.Backspace, "\ue003", kb.Tab, "\ue004", kb.Enter, "\ue006", kb.Escape, "\ue00c",
	kb.ArrowLeft, "\ue012", kb.ArrowUp, "\ue013", kb.ArrowRight, "\ue014", kb.ArrowDown, "\ue015")

func (f *firefox) typeKeys(keys string) {
	f.tab.t.Helper()
	var actions []object
	for _, key := range bidiKeys.Replace(keys) {
		actions = append(actions, object{"type": "keyDown", "value": string(key)}, object{"type": "keyUp", "value": string(key)})
	}
	f.act(object{"type": "key", "id": "keyboard", "actions": actions})
}

// chooseFiles sets the files of the file input of an expression.
func (f *firefox) chooseFiles(expression string, paths []string) {
	f.tab.t.Helper()
	var found struct{ Result struct{ SharedID string } }
	f.call("script.evaluate", object{"expression": expression, "target": object{"context": f.page}, "awaitPromise": false}, &found)
	f.call("input.setFiles", object{"context": f.page, "element": object{"sharedId": found.Result.SharedID}, "files": paths}, nil)
}
