package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/storage/memory"
)

func sourceURL(name string) string { return "https://viewer.example/drawings/" + name }

func TestExports_AreRegisteredAndDownloaded(t *testing.T) {
	s := startSite(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	b := openWithClientKey(s, "exports")

	b.click("Register…")
	b.fill("Source", sourceURL("section"))
	b.fill("Exported file", apitest.FilesURL+"plan.pdf")
	b.fill("File name (optional)", "Schnitt ä “1”.pdf")
	b.click("Register")
	b.waitText("Registered.")
	b.waitFocus(`e2e.button("Register…")`)
	equal(b, `e2e.field("Sources").value`, sourceURL("section"))
	s.is.Equal(s.export(sourceURL("section")).ExportedURL, apitest.FilesURL+"plan.pdf")

	b.click("Download")
	b.waitText("Schnitt ä “1”.pdf, 8 B, is in your browser's downloads.")
	s.is.Equal(string(b.downloaded("Schnitt ä “1”.pdf")), "the plan")

	s.Clock.Add(time.Second)
	b.registerExport(sourceURL("section"), apitest.FilesURL+"plan.pdf")
	b.waitText("The previous export was replaced.")
	b.registerExport(sourceURL("x"), "http://127.0.0.1/x")
	b.waitText("Request rejected", "exportedUrl") // in the message
}

func TestExports_DownloadsZip(t *testing.T) {
	s := startSite(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	s.RegisterExport(t, sourceURL("large"), "large.bin", strings.Repeat("0123456789abcdef", 1<<16))
	s.register(sourceURL("lost"), apitest.FilesURL+"lost.pdf")
	b := openWithClientKey(s, "exports")
	b.fill("Sources", strings.Join([]string{sourceURL("plan"), sourceURL("nope"), "", "  " + sourceURL("large") + "  ", sourceURL("lost"), sourceURL("plan")}, "\n"))
	b.click("Download 5 files as a zip")
	b.waitText("2 files skipped", "canvas-exports.zip, 1.0 MB, is in your browser's downloads.")
	s.is.Equal(b.tableRows(), []string{sourceURL("nope") + " not registered", sourceURL("lost") + " file cannot be fetched"})
	s.is.Equal(b.downloadedNames("canvas-exports.zip"), []string{"plan.pdf", "large.bin", "plan-1.pdf", "manifest.json"})

	b.fill("Sources", strings.Join([]string{sourceURL("nope"), sourceURL("never")}, "\n"))
	b.click("Download 2 files as a zip")
	b.waitText("No export is registered for this source.", "2 files skipped")

	b.fill("Sources", strings.Join([]string{sourceURL("plan"), sourceURL("large")}, "\n")) // nothing is skipped
	b.click("Download 2 files as a zip")
	b.waitNoText("skipped")
	b.waitText("is in your browser's downloads.")
}

func TestExports_ShowsURLs(t *testing.T) {
	s := startSite(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	s.RegisterExport(t, sourceURL("section"), "section.pdf", "x")
	b := openWithClientKey(s, "exports")
	b.click("Show the URLs of the files instead")
	b.fill("Sources", strings.Join([]string{sourceURL("nope"), sourceURL("plan"), sourceURL("nope"), sourceURL("section"), sourceURL("plan")}, "\n"))
	b.click("Show URLs")
	b.waitText("section.pdf")
	links := s.url + "api/viewer/exports/links/" // of private files
	var rows []string
	for _, row := range b.tableRows() {
		rows = append(rows, regexp.MustCompile(`links/[\w-]{43}/`).ReplaceAllString(row, "links/"))
	}
	s.is.Equal(rows, []string{
		sourceURL("nope") + " not registered", sourceURL("plan") + " " + links + "plan.pdf", sourceURL("nope") + " not registered",
		sourceURL("section") + " " + links + "section.pdf", sourceURL("plan") + " " + links + "plan.pdf",
	})
	b.fill("Sources", sourceURL("plan"))
	b.click("Show URLs")
	b.wait(`document.querySelectorAll("main tbody tr").length === 1`)
	equal(b, `fetch(document.querySelector("main tbody a").href).then((response) => response.text())`, "the plan")
}

// pausingOpener opens files of pausingSize bytes and pauses each in the middle
// until it is closed.
type pausingOpener chan struct{}

const pausingSize = 4 << 20

func (pausingOpener) Serves(*url.URL) bool { return true }
func (pausingOpener) Check(*url.URL) error { return nil }

func (o pausingOpener) Open(ctx context.Context, _ *url.URL) (*exports.File, error) {
	half := make([]byte, pausingSize/2)
	body := io.MultiReader(bytes.NewReader(half), blockingReader{ctx, o}, bytes.NewReader(half))
	return &exports.File{Body: io.NopCloser(body), Size: pausingSize, Name: "large.bin"}, nil
}

// blockingReader is empty, and blocks until done is closed.
type blockingReader struct {
	ctx  context.Context
	done chan struct{}
}

func (r blockingReader) Read([]byte) (int, error) {
	select {
	case <-r.done:
		return 0, io.EOF
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// TestExports_DownloadOutlivesTheScreen leaves the screen during a download.
func TestExports_DownloadOutlivesTheScreen(t *testing.T) {
	resume := make(pausingOpener)
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{resume}})
	is.New(t).NoErr(err)
	s := startSite(t, func(o *httpapi.Options) { o.Exports = service })
	s.register(sourceURL("large"), apitest.FilesURL+"large.bin")
	b := openWithClientKey(s, "exports")
	b.fill("Sources", sourceURL("large"))
	b.click("Download")
	b.waitText("large.bin, 4.2 MB, is in your browser's downloads. It cannot be paused.")
	b.click("Symbols")
	b.wait(`location.hash.includes("symbols")`)
	close(resume)
	is.New(t).Equal(len(b.downloaded("large.bin")), pausingSize)
}

// exportFolder starts the export of a folder that begins with half of its bytes.
// The rest follows when resume is closed; if it is nil, the response is aborted.
func exportFolder(t *testing.T, size int, lengthKnown bool, resume chan struct{}) (b *tab, returned chan struct{}) {
	t.Helper()
	returned = make(chan struct{})
	s := startSiteBehind(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/export") {
			return false
		}
		defer close(returned)
		if lengthKnown {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		w.Write(make([]byte, size/2))
		w.(http.Flusher).Flush()
		if resume == nil {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-resume:
			w.Write(make([]byte, size/2))
		case <-r.Context().Done():
		}
		return true
	}, unprotected)
	s.folder("Valves", "Gate valve")
	b = openSymbols(s, "1 symbol")
	b.click("Folder actions", "Export as zip")
	return b, returned
}

func TestDownload_ShowsProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known    bool
		shows    string
		position float64
	}{
		"known size":   {true, "2.1 MB of 4.2 MB, 50 %", 0.5},
		"unknown size": {false, "2.1 MB, total size unknown", -1},
	} {
		t.Run(name, func(t *testing.T) {
			resume := make(chan struct{})
			b, _ := exportFolder(t, pausingSize, c.known, resume)
			b.waitText(c.shows)
			equal(b, `document.querySelector("progress").position`, c.position)
			close(resume)
			is.New(t).Equal(len(b.downloaded("Valves.zip")), pausingSize)
		})
	}
}

func TestDownload_CancelAbortsRequest(t *testing.T) {
	b, returned := exportFolder(t, pausingSize, false, make(chan struct{}))
	b.waitText("total size unknown")
	b.click("Cancel")
	b.waitText("Canceled.")
	b.wait(`!document.querySelector("progress") && !document.querySelector("[aria-busy]")`)
	select {
	case <-returned:
	case <-time.After(timeout):
		t.Error("the handler has not returned")
	}
}

func TestDownload_ShowsAbortedOne(t *testing.T) {
	b, _ := exportFolder(t, 600_000, true, nil)
	b.waitText("The download was aborted after", "Nothing was saved.")
}

// TestExports_RegistersWithLogin has the login of an application, and a client key that is
// entered for other screens.
func TestExports_RegistersWithLogin(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]httpapi.RegisterWith{
		"scope": httpapi.RegisterWithScope, "client key": httpapi.RegisterWithClientKey, "admin key": httpapi.RegisterWithAdminKey,
	} {
		t.Run(name, func(t *testing.T) {
			b := openWithClientKey(startSite(t, loggedIn, func(o *httpapi.Options) { o.RegisterWith = with }), "exports")
			b.waitText("No exports yet")
			b.registerExport(sourceURL("plan"), apitest.FilesURL+"plan.pdf")
			b.waitText("Registered.")
		})
	}
}

// loggedIn sets a login of the application, where everyone is logged in.
func loggedIn(o *httpapi.Options) {
	o.AuthenticateAdmin = func(*http.Request) (string, error) { return "ann", nil }
}

func TestExports_RegistersWithAdminKeyIfRequired(t *testing.T) {
	s := startSite(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey })
	b := openWithClientKey(s, "exports")
	b.registerExport(sourceURL("plan"), apitest.FilesURL+"plan.pdf")
	b.waitText("Admin key missing")
	b.click("Enter the admin key")
	b.enterInDialog("Admin key", apitest.AdminKey)
	b.wait(`e2e.field("Source")?.value > ""`) // what was entered is kept
	b.click("Register")
	b.waitText("Registered.")
}

// startSiteOfViewer returns a site whose API allows pages of a viewer on another origin, and
// fails the first download of a link.
func startSiteOfViewer(t *testing.T) (s *site, viewerURL string) {
	t.Helper()
	viewer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			s.sendToken(w, r, "exports:read")
			return
		}
		io.WriteString(w, "<!doctype html><title>A viewer</title>")
	}))
	t.Cleanup(viewer.Close)
	s = startSite(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{viewer.URL} })
	s.failOnce("/exports/links/")
	return s, viewer.URL
}

// TestExports_DownloadFromOtherOrigin downloads a file from a page of a viewer.
func TestExports_DownloadFromOtherOrigin(t *testing.T) {
	s, viewerURL := startSiteOfViewer(t)
	s.RegisterExport(t, sourceURL("plan"), "plan ä.pdf", "the plan")
	b := openTab(t, viewerURL)
	download := func(url string) string {
		return eval[string](b, `fetch(`+quote(url)+`, {
			method: "POST",
			headers: { "Content-Type": "application/json", "x-api-key": `+quote(string(s.RawKey))+` },
			body: JSON.stringify({ sourceFileUrl: `+quote(sourceURL("plan"))+` }),
		}).then(async (response) => [response.status, response.headers.get("Content-Disposition"), response.headers.get("Content-Length"), await response.text()].join("|"), () => "blocked")`)
	}
	s.is.Equal(download(s.url+"api/viewer/exports/download"), `200|attachment; filename="plan _.pdf"; filename*=UTF-8''plan%20%C3%A4.pdf|8|the plan`)

	other := anotherSite(t) // allows no origin
	other.listen(other.handler())
	other.RegisterExport(t, sourceURL("plan"), "plan ä.pdf", "the plan")
	b.ignoreProblem("has been blocked by CORS policy")
	s.is.Equal(download(other.url+"api/viewer/exports/download"), "blocked")
}

// TestExports_LinkFromOtherOrigin runs the lines of README.md in a page of a viewer, which
// outlives a failed download.
func TestExports_LinkFromOtherOrigin(t *testing.T) {
	s, viewerURL := startSiteOfViewer(t)
	s.RegisterExport(t, sourceURL("plan"), "plan ä.pdf", "the plan")
	s.RegisterExport(t, sourceURL("large"), "large.bin", strings.Repeat("0123456789abcdef", 1<<16))
	b := openTab(t, viewerURL)
	readme, err := os.ReadFile("../../../README.md")
	s.is.NoErr(err)
	_, lines, _ := strings.Cut(string(readme), "```js\n")
	lines, _, _ = strings.Cut(lines, "```")
	lines = strings.NewReplacer(
		`import {`, `const {`, `from "/api/client.js"`, `= await import("`+s.url+`api/client.js")`, // a script has no import statement
	).Replace(lines)
	sources := `[` + quote(sourceURL("plan")) + `, ` + quote(sourceURL("large")) + `]`
	eval[any](b, `(async (sources) => { `+lines+` })(`+sources+`)`)
	b.waitFor(s.hasFailed, "the download that fails")
	eval[any](b, `(async (sources) => { `+lines+` })(`+sources+`)`)
	s.is.Equal(len(b.downloadedNames("canvas-exports.zip")), 2)
	equal(b, `document.title`, "A viewer") // the page is still there
}

// TestExports_APIOfOtherOrigin has the console and its API on two origins. The first
// download fails.
func TestExports_APIOfOtherOrigin(t *testing.T) {
	s := newSite(t)
	s.failOnce("/exports/links/")
	var api http.Handler
	var opened atomic.Bool // the document of the API, in place of a page
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r)
		opened.CompareAndSwap(false, r.URL.Path == "/openapi.json" && r.Header.Get("Sec-Fetch-Mode") == "navigate")
	})
	apiServer := httptest.NewServer(s.failing(handler))
	t.Cleanup(apiServer.Close)
	s.listen(s.console(apiServer.URL))
	s.Options.AllowedOrigins = []string{strings.TrimSuffix(s.url, "/")}
	api = s.api()
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	b := openWithClientKey(s, "exports")
	b.fill("Sources", sourceURL("plan"))
	b.click("Download")
	b.waitText("plan.pdf, 8 B, is in your browser's downloads.")
	b.waitFor(s.hasFailed, "the download that fails")
	b.click("Download")
	is.New(t).Equal(string(b.downloaded("plan.pdf")), "the plan")
	b.click("Keys")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText(keyName)

	b.ignoreProblem("window: ")
	b.click("API", "openapi.json")
	b.waitFor(opened.Load, "the document of the API")
	b.click("Keys") // the page is still there, with the key in its memory
	b.waitText(keyName)
}
