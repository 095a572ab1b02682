package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"example.com/canvasback/httpapi"
)

// beacon is a server that records requests, which only a script or an external
// resource of an image could send.
type beacon struct {
	mu   sync.Mutex
	hits []string
}

func (b *beacon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits = append(b.hits, r.URL.Path)
	w.Header().Set("Access-Control-Allow-Origin", "*")
}

func (b *beacon) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	hits := b.hits
	b.hits = nil
	return hits
}

// hostileImages are data of symbols that try to request a URL, by name.
func hostileImages(target string) map[string]string {
	script := `fetch('` + target + `script')`
	svg := func(inner string) string {
		return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="90" height="90">` + inner + `<rect width="90" height="90"/></svg>`
	}
	images := map[string]string{
		"script":         svg(`<script>` + script + `</script>`),
		"onload":         strings.Replace(svg(``), `<svg`, `<svg onload="`+script+`"`, 1),
		"foreignObject":  svg(`<foreignObject width="9" height="9"><body xmlns="http://www.w3.org/1999/xhtml"><img src="` + target + `img"/><iframe src="` + target + `frame"/><script>` + script + `</script></body></foreignObject>`),
		"image":          svg(`<image href="` + target + `image" width="9" height="9"/>`),
		"use":            svg(`<use xlink:href="` + target + `use#a"/>`),
		"style import":   svg(`<style>@import url(` + target + `css); rect { fill: url(` + target + `fill#a) }</style>`),
		"font":           svg(`<style>@font-face { font-family: f; src: url(` + target + `font) } text { font-family: f }</style><text y="20">x</text>`),
		"stylesheet":     `<?xml-stylesheet href="` + target + `sheet" type="text/css"?>` + svg(``),
		"entity":         `<!DOCTYPE svg [<!ENTITY x SYSTEM "` + target + `entity">]>` + svg(`<text>&x;</text>`),
		"dtd":            `<!DOCTYPE svg SYSTEM "` + target + `dtd">` + svg(``),
		"animate":        svg(`<a><animate attributeName="href" values="javascript:` + script + `"/><text y="20">x</text></a>`),
		"meta refresh":   svg(`<meta xmlns="http://www.w3.org/1999/xhtml" http-equiv="refresh" content="0;url=` + target + `refresh"/>`),
		"xslt":           `<?xml-stylesheet href="` + target + `xslt" type="text/xsl"?>` + svg(``),
		"href script":    svg(`<script href="` + target + `src"/>`),
		"long":           svg(`<script>` + script + `</script><desc>` + strings.Repeat("x", 20<<20) + `</desc>`),
		"polyglot html":  "data:image/gif;base64," + base64.StdEncoding.EncodeToString([]byte("GIF89a<html><script>"+script+"</script>")),
		"polyglot js":    "data:image/gif;base64," + base64.StdEncoding.EncodeToString([]byte("GIF89a=1;"+script)),
		"html":           `<html xmlns="http://www.w3.org/1999/xhtml"><script>` + script + `</script></html>`,
		"html named svg": "data:image/svg+xml,<html xmlns='http://www.w3.org/1999/xhtml'><script>" + script + "</script></html>",
	}
	for _, name := range []string{"script", "foreignObject"} {
		images[name+" in a data URL"] = "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(images[name]))
	}
	return images
}

// TestImage_HostileImagesDoNothing opens hostile images as documents and as parts of
// a page. The same SVG from a plain server shows that the test would notice.
func TestImage_HostileImagesDoNothing(t *testing.T) {
	recorder := new(beacon)
	target := httptest.NewServer(recorder)
	defer target.Close()
	images := hostileImages(target.URL + "/")
	s := newSite(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys = true })
	folder, err := s.Symbols.CreateFolder(t.Context(), "hostile")
	s.is.NoErr(err)
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", s.api()))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>page</title><body>`)
	})
	mux.HandleFunc("/plain.svg", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, images["script"])
	})
	s.listen(mux)
	b := openTab(t, s.url)
	b.ignoreProblem("") // errors of the images

	b.visit(s.url + "plain.svg")
	b.waitFor(func() bool { return len(recorder.take()) > 0 }, "the script of an image from a plain server")
	var paths []string
	for name, data := range images {
		symbol := s.symbol(folder.ID, name, "text/html", data)
		path := fmt.Sprintf("%sapi/symbol/symbols/%d/image", s.url, symbol.ID)
		paths = append(paths, path)
		b.visit(path)
		t.Log(name)
		s.is.Equal(len(recorder.take()), 0)
	}
	b.visit(s.url)
	list, err := json.Marshal(paths)
	s.is.NoErr(err)
	eval[bool](b, `Promise.all(`+string(list)+`.flatMap((path) => ["img", "iframe", "object", "embed", "script"].map((tag) => new Promise((done) => {
		const element = document.createElement(tag);
		element.onload = element.onerror = done;
		setTimeout(done, 2000);
		element[tag === "object" ? "data" : "src"] = path;
		document.body.append(element);
	})))).then(() => new Promise((done) => setTimeout(() => done(true), 100)))`) // 100 ms for what a script would do
	s.is.Equal(len(recorder.take()), 0)
	equal(b, `document.title`, "page")
}
