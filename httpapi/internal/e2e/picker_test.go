package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/symbols"
)

const picker = "../../../examples/picker"

// pickerSite is an API and, on another origin, the example, whose /token makes page
// tokens.
type pickerSite struct {
	*site
	pageURL string
	isDown  atomic.Bool // all requests but that for the client get 503

	areImagesDown atomic.Bool
	pageLimit     atomic.Value // instead of that of a request

	mu       sync.Mutex
	requests []string // method and path, of the API and of /token
}

// count returns how many requests have a part.
func (s *pickerSite) count(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requests {
		if strings.Contains(request, part) {
			n++
		}
	}
	return n
}

// record returns a handler that records requests, and is down at times.
func (s *pickerSite) record(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if s.isDown.Load() && !strings.HasSuffix(r.URL.Path, "/client.js") {
			http.Error(w, `{"message":"down"}`, http.StatusServiceUnavailable)
			return
		}
		if s.areImagesDown.Load() && strings.HasSuffix(r.URL.Path, "/image") {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		if limit, ok := s.pageLimit.Load().(string); ok {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "limit=200", "limit="+limit, 1)
		}
		next(w, r)
	})
}

func startPicker(t *testing.T) *pickerSite {
	t.Helper()
	is := is.New(t)
	s := new(pickerSite)
	index, err := os.ReadFile(picker + "/index.html")
	is.NoErr(err)
	lines := strings.Count(string(index), "\n")
	is.True(lines <= 15) // what a page needs
	files := http.NewServeMux()
	page := httptest.NewServer(files)
	t.Cleanup(page.Close)
	s.pageURL = page.URL
	s.site = newSite(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{page.URL} })
	s.listen(s.record(http.StripPrefix("/api", s.api()).ServeHTTP))
	files.Handle("/", http.FileServer(http.Dir(picker)))
	files.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Replace(string(index), "http://127.0.0.1:8080/", s.url, 1))
	})
	files.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	files.Handle("/token", s.record(func(w http.ResponseWriter, r *http.Request) { s.sendToken(w, r, "symbols:read") }))
	return s
}

// requestsToOpen is the limit on the requests that open the palette, preflights included,
// besides images and scripts.
const requestsToOpen = 6

func (s *pickerSite) requestsBesidesImages() int {
	return s.count("") - s.count("/image") - s.count("/client.js") - s.count("POST") // by the application's server
}

// inPalette returns an expression with root and options, the shadow root and the options
// of the palette.
func inPalette(expression string) string {
	return `(() => { const { shadowRoot: root } = document.querySelector("canvasback-palette"); ` +
		`const options = [...root.querySelectorAll("[role=option]")]; return ` + expression + `; })()`
}

// paletteNames returns the names of the options.
func paletteNames(b *tab) []string {
	return eval[[]string](b, inPalette(`options.map((one) => one.textContent.trim())`))
}

// clickOption clicks the option at an index.
func clickOption(b *tab, i int) {
	b.t.Helper()
	at := eval[point](b, inPalette(fmt.Sprintf(
		`(({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))(options[%d].getBoundingClientRect())`, i,
	)))
	b.clickAt(at)
}

// placed returns the names of the images on the drawing that have loaded.
const placed = `[...document.querySelectorAll("main img")].filter((image) => image.naturalWidth > 0).map((image) => image.alt).join()`

func TestPicker_PlacesSymbols(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, string) *tab{"chromium": openTab, "firefox": openFirefox} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := startPicker(t)
			s.folder("Pumps", "Centrifugal", "Gear")
			valves := s.folder("Valves", "Ball", "Check", "Gate", "Globe")
			s.symbol(valves.ID, "Not an image", "text/plain", "text")
			b := open(t, s.pageURL)
			b.ignoreProblem("404") // an image
			b.wait(inPalette(`options.length === 2`))
			is.Equal(paletteNames(b), []string{"Centrifugal", "Gear"})
			b.wait(inPalette(`options.every((one) => one.firstChild.naturalWidth > 0)`))
			b.typeKeys(kb.Tab)
			b.wait(inPalette(`root.activeElement?.localName === "select"`))
			b.typeKeys(kb.Tab)
			eval[any](b, inPalette(`["g", "ga", "gat"].forEach((text) => {
				root.querySelector("input").value = text;
				root.querySelector("input").dispatchEvent(new Event("input"));
			})`))
			b.wait(inPalette(`options.length === 1`))
			is.Equal(s.count("GET /api/symbol/search"), 1) // in the pause
			b.typeKeys(kb.Tab + kb.Enter)
			b.wait(placed + ` === "Gate"`)

			eval[any](b, inPalette(`(root.querySelector("select").value = "2", root.querySelector("select").dispatchEvent(new Event("change")), null)`))
			b.wait(inPalette(`options.length === 5`))
			b.wait(inPalette(`options[4].ariaDisabled`))
			is.Equal(paletteNames(b), []string{"Ball", "Check", "Gate", "Globe", "No image: Not an image"})
			clickOption(b, 4)
			clickOption(b, 0)
			b.typeKeys(kb.ArrowRight + kb.ArrowDown + kb.ArrowUp + kb.ArrowRight + kb.Enter)
			b.wait(placed + ` === "Gate,Ball,Gate"`)
			equal(b, inPalette(`root.getElementById(root.querySelector("ul").getAttribute("aria-activedescendant")).innerText.trim()`), "Gate")
			equal(b, inPalette(`options.find((one) => one.ariaSelected === "true").innerText.trim()`), "Gate")

			eval[any](b, `(() => {
				const { shadowRoot: root } = document.querySelector("canvasback-palette");
				const dataTransfer = new DataTransfer();
				root.querySelectorAll("[role=option]")[3].dispatchEvent(new DragEvent("dragstart", { dataTransfer, bubbles: true }));
				document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer, clientX: 600, clientY: 300 }));
				window.symbol = document.querySelector("canvasback-palette").dropped(dataTransfer);
			})()`)
			b.wait(placed + ` === "Gate,Ball,Gate,Globe"`)
			equal(b, `symbol.blob().then((blob) => [symbol.id, symbol.name, symbol.type, blob.type].join())`, "6,Globe,image/svg+xml,image/svg+xml")
			b.wait(`symbol.url.includes("&token=cbt_")`)
		})
	}
}

// TestPicker_FollowsChanges: what others change shows, and what stays keeps its element.
func TestPicker_FollowsChanges(t *testing.T) {
	s := startPicker(t)
	folder := s.folder("Valves", "Ball", "Check")
	b := openTab(t, s.pageURL)
	b.wait(inPalette(`options.length === 2 && options.every((one) => one.firstChild.naturalWidth > 0)`))
	s.is.True(s.requestsBesidesImages() <= requestsToOpen)
	s.is.Equal(s.count("OPTIONS /api/symbol/symbols/"), 0) // for images
	eval[any](b, inPalette(`(window.check = options[1], null)`))
	s.is.NoErr(s.Symbols.DeleteSymbol(t.Context(), 1, symbols.Any, 0))
	gate := s.symbol(folder.ID, "Gate", "image/svg+xml", imageData("Gate", "image/svg+xml", svgImage))
	b.wait(inPalette(`options.length === 2 && options[1].innerText.trim() === "Gate"`))
	b.wait(inPalette(`options[0] === check`))
	b.wait(inPalette(`options[1].firstChild.naturalWidth === 40`))
	redrawn := strings.Replace(svgImage, `width="40"`, `width="50"`, 1)
	_, err := s.Symbols.UpdateSymbol(t.Context(), gate.ID, symbols.SymbolFields{Data: &redrawn}, symbols.Any)
	s.is.NoErr(err)
	b.wait(inPalette(`options[1].firstChild.naturalWidth === 50`))
	s.folder("Pumps")
	b.wait(inPalette(`[...root.querySelectorAll("option")].map((one) => one.text).join() === "Pumps,Valves"`))
	equal(b, inPalette(`root.querySelector("select").selectedOptions[0].text`), "Valves")
	requests := s.count("GET /api/symbol/folders/1/symbols")
	s.symbol(2, "Gear", "image/svg+xml", svgImage) // is not shown
	s.symbol(1, "Globe", "image/svg+xml", svgImage)
	b.waitFor(func() bool { return s.count("GET /api/symbol/folders/1/symbols") == requests+1 }, "one more request")
}

// TestPicker_RecoversFromOutages: a read that fails shows nothing old, and is repeated.
func TestPicker_RecoversFromOutages(t *testing.T) {
	s := startPicker(t)
	s.folder("Pumps", "Gear")
	s.folder("Valves", "Ball", "Check")
	s.isDown.Store(true)
	b := openTab(t, s.pageURL)
	b.ignoreProblem("CORS policy")
	b.wait(inPalette(`root.querySelector("p").innerText === "down"`))
	s.isDown.Store(false)
	b.wait(inPalette(`options.length === 1 && root.querySelector("p").innerText === "1 symbol"`))

	s.isDown.Store(true)
	eval[any](b, inPalette(`(root.querySelector("select").value = "2", root.querySelector("select").dispatchEvent(new Event("change")), null)`))
	b.wait(inPalette(`options.length === 0 && root.querySelector("p").innerText === "No response from the server"`)) // it has no CORS header
	s.isDown.Store(false)
	b.wait(inPalette(`options.length === 2 && root.querySelector("p").innerText === "2 symbols"`))
}

// TestPicker_LoadsWhatIsSeen opens a library that is too large to load.
func TestPicker_LoadsWhatIsSeen(t *testing.T) {
	s := startPicker(t)
	folder := s.folder("Folder 0")
	for i := range 1000 {
		s.symbol(folder.ID, fmt.Sprint("Valve ", i), "image/svg+xml", svgImage)
		if i > 0 {
			s.folder(fmt.Sprint("Folder ", i))
		}
	}
	b := openTab(t, s.pageURL)
	b.waitText("Drawing")
	b.wait(inPalette(`root.querySelector("p").innerText === "200+ symbols"`))
	equal(b, inPalette(`root.querySelectorAll("option").length`), 1000)
	b.wait(inPalette(`options[0].firstChild.naturalWidth > 0`))
	s.is.True(s.count("/image") < 200)
	s.is.True(s.requestsBesidesImages() <= requestsToOpen)
	b.wait(inPalette(`(root.querySelector("ul").scrollTop = 1e6, root.querySelector("p").innerText === "1,000 symbols")`))
	b.wait(inPalette(`root.querySelector("ul").scrollTop > 0`))
	eval[any](b, inPalette(`(root.querySelector("ul").focus(), null)`))
	b.typeKeys(kb.End)
	b.wait(inPalette(`options[999].ariaSelected === "true"`))
	b.typeKeys(kb.Home)
	b.wait(inPalette(`options[0].ariaSelected === "true" && root.querySelector("ul").scrollTop < 100`))
}

// TestPicker_ReadsShortPages: a page with a Link is not the last one, however short it is.
func TestPicker_ReadsShortPages(t *testing.T) {
	s := startPicker(t)
	s.folder("Valves", "Ball", "Check", "Gate", "Globe", "Needle")
	s.pageLimit.Store("2")
	b := openTab(t, s.pageURL)
	b.wait(inPalette(`root.querySelector("p").innerText === "5 symbols"`))
	s.is.Equal(paletteNames(b), []string{"Ball", "Check", "Gate", "Globe", "Needle"})
}

// TestPicker_LoadsImagesAfterAnOutage: an image that the server did not send is not missing.
func TestPicker_LoadsImagesAfterAnOutage(t *testing.T) {
	s := startPicker(t)
	folder := s.folder("Valves", "Ball")
	s.symbol(folder.ID, "Not an image", "text/plain", "text")
	s.areImagesDown.Store(true)
	b := openTab(t, s.pageURL)
	b.ignoreProblem("404") // an image
	b.ignoreProblem("503")
	b.ignoreProblem("CORS policy")
	b.waitFor(func() bool { return s.count("GET /api/symbol/symbols/1/image") >= 2 }, "two requests for the image")
	time.Sleep(200 * time.Millisecond)
	s.areImagesDown.Store(false)
	b.wait(inPalette(`options.length === 2 && options[0].firstChild.naturalWidth > 0`))
	b.wait(inPalette(`options[1].ariaDisabled`))
	equal(b, inPalette(`options[0].ariaDisabled === null`), true)
}

func TestPicker_IsAccessible(t *testing.T) {
	axe := newAxe()
	s := startPicker(t)
	s.folder("Valves", "Ball", "Check", strings.Repeat("long name ", 9), strings.Repeat("x", 200))
	b := openTab(t, s.pageURL)
	b.wait(inPalette(`options.length === 4`))
	clickOption(b, 0)
	b.wait(placed + ` === "Ball"`)
	for _, theme := range []string{"light", "dark"} {
		b.setMedia("prefers-color-scheme", theme)
		s.is.Equal(eval[string](b, inPalette(`getComputedStyle(root.host).backgroundColor`)) == "rgb(255, 255, 255)", theme == "light")
		for _, width := range []int64{1280, 320} {
			b.resize(width, 700)
			b.wait(`document.documentElement.scrollWidth <= innerWidth`)
			s.is.True(eval[float64](b, inPalette(`root.host.offsetWidth`)) == 320)
			axe.check(b, fmt.Sprint(theme, " ", width))
		}
	}
	axe.report(t)
}

// TestPicker_AddsStamps runs the example with a double that records the calls of the
// SDK.
func TestPicker_AddsStamps(t *testing.T) {
	s := startPicker(t)
	s.folder("folder", "Gate valve")
	s.symbol(1, "A note", "text/plain", "no image, which is skipped")
	s.symbol(1, "Globe valve", "image/svg+xml", imageData("Globe valve", "image/svg+xml", svgImage))
	b := openTab(t, s.pageURL)
	b.ignoreProblem("404")
	got := eval[[]string](b, `(async () => {
		const { createClient } = await import("`+s.url+`api/client.js");
		const { addStamps } = await import("/nutrient.js");
		class Rect { constructor(values) { Object.assign(this, values); } }
		class ImageAnnotation { constructor(values) { Object.assign(this, values); } }
		const attachments = [];
		let templates = ["default"];
		await addStamps({ Annotations: { ImageAnnotation }, Geometry: { Rect } }, {
			async createAttachment(blob) { return "attachment " + attachments.push((await createImageBitmap(blob)).width); },
			setStampAnnotationTemplates(change) { templates = change(templates); },
		}, createClient({ key: "`+string(s.RawKey)+`" }), 1);
		return templates.map((t) => t.boundingBox ? [t.description, t.contentType, t.imageAttachmentId, t.boundingBox.width > 0].join() : t);
	})()`)
	s.is.Equal(got, []string{"default", "Gate valve,image/png,attachment 1,true", "Globe valve,image/png,attachment 2,true"})
}

// TestPicker_ShownFolderIsDeleted: the palette shows the folder that its select shows then.
func TestPicker_ShownFolderIsDeleted(t *testing.T) {
	s := startPicker(t)
	pumps := s.folder("Pumps", "Centrifugal")
	s.folder("Valves", "Ball", "Check")
	b := openTab(t, s.pageURL)
	b.wait(inPalette(`options.length === 1 && options[0].innerText.trim() === "Centrifugal"`))
	s.is.NoErr(s.Symbols.DeleteFolder(t.Context(), pumps.ID, symbols.Any, 0))
	b.wait(inPalette(`root.querySelector("select").selectedOptions[0].text === "Valves"`))
	b.wait(inPalette(`options.map((one) => one.textContent.trim()).join() === "Ball,Check"`))
}
