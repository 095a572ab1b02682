package bundle_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
	"example.com/canvasback/symbols/picture"
)

// drawioLibrary returns a library with the entries of a JSON array.
func drawioLibrary(t testing.TB, entries ...map[string]any) string {
	t.Helper()
	text := must(json.Marshal(entries))(t)
	var escaped bytes.Buffer
	is.New(t).NoErr(xml.EscapeText(&escaped, text))
	return `<mxlibrary title="Pipes">` + escaped.String() + `</mxlibrary>`
}

// deflated returns a diagram as draw.io stores it.
func deflated(t testing.TB, diagram string) string {
	t.Helper()
	var out bytes.Buffer
	w := must(flate.NewWriter(&out, flate.BestCompression))(t)
	must(io.WriteString(w, url.PathEscape(diagram)))(t)
	is.New(t).NoErr(w.Close())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// drawingData returns the data of a symbol whose picture is drawing.
func drawingData(name string) string {
	text, _ := json.Marshal(name)
	text = bytes.ReplaceAll(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\u003c`), []byte("<")), []byte(`\u003e`), []byte(">")), []byte(`\u0026`), []byte("&"))
	return `{"name":` + string(text) + strings.TrimPrefix(strings.Replace(viewerData("", "image/svg+xml", drawing), `"height":96`, `"height":48`, 1), `{"name":""`)
}

func readLibrary(t testing.TB, text string, options *bundle.Options) *bundle.Contents {
	t.Helper()
	return must(bundle.Read(t.Context(), []byte(text), options))(t)
}

func TestRead_DrawioLibrary(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	svg := base64.StdEncoding.EncodeToString([]byte(drawing))
	cell := `<mxGraphModel><root><mxCell style="shape=image;image=data:image/svg+xml,` + svg + `;" vertex="1"/></root></mxGraphModel>`
	png := base64.StdEncoding.EncodeToString([]byte(pngOf(t, 3, 2)))
	pngCell := strings.NewReplacer("image/svg+xml", "image/png", svg, png).Replace(cell)
	library := drawioLibrary(t,
		map[string]any{"data": "data:image/svg+xml;base64," + svg, "w": 40, "h": 30.5, "title": "Gate & valve", "aspect": "fixed", "tags": "brass  DN50 brass"},
		map[string]any{"xml": " " + cell, "w": 1, "h": 2, "title": "In a style"}, // drawn by one cell
		map[string]any{"xml": strings.NewReplacer("<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(cell), "title": "Escaped"},
		map[string]any{"xml": deflated(t, cell)},
		map[string]any{"data": "data:image/png;base64," + png, "title": "PNG", "w": 1},
		map[string]any{"xml": pngCell, "title": "PNG in a style", "h": 1},
		map[string]any{"xml": deflated(t, pngCell), "title": "PNG, compressed"},
	)
	contents := readLibrary(t, library, nil)
	var names []string
	for _, file := range contents.Files {
		names = append(names, file.Symbol.Name)
	}
	is.Equal(names, []string{"Gate & valve", "In a style", "Escaped", "Pipes 4", "PNG", "PNG in a style", "PNG, compressed"})
	is.Equal(contents.Files[0].Symbol.Tags.List(), []string{"brass", "DN50"})
	is.Equal(contents.Files[0].Symbol.Meta, `{"height":30.5,"width":40}`)
	for _, file := range contents.Files[:4] {
		is.Equal(file.Symbol.Data, drawingData(file.Symbol.Name))
	}
	for _, file := range contents.Files[4:] {
		is.Equal(file.Symbol.Type, "image/png")
		is.Equal(file.Symbol.Meta, "")
		is.True(strings.Contains(file.Symbol.Data, `"`+png+`","width":3,"height":2}`))
	}

	shape := map[string]any{"xml": `<mxGraphModel><root><mxCell style="ellipse"/></root></mxGraphModel>`, "title": "Ellipse"}
	for _, other := range []map[string]any{
		shape, {"xml": cell + cell, "title": "Ellipse"}, {"data": "image/svg+xml," + svg, "title": "Ellipse"},
		{"data": "data:image/svg+xml;base64,<svg/>", "title": "Ellipse"},
	} {
		is.Equal(rejections(readError(t, []byte(drawioLibrary(t, other)), nil)), "Ellipse: not an image: draw.io would have to draw it")
	}
	skipped := readLibrary(t, drawioLibrary(t, shape), &bundle.Options{Skip: true})
	is.Equal(skipped.Skipped, []bundle.FileNote{{File: "Ellipse", Reason: "not an image: draw.io would have to draw it"}})
	untitled := `<mxlibrary>[{"data":"data:image/svg+xml;base64,` + svg + `"}]</mxlibrary>`
	long := readLibrary(t, untitled, &bundle.Options{Folder: strings.Repeat("ä", 255)}) // names have at most 255 characters
	is.Equal(long.Files[0].Symbol.Name, strings.Repeat("ä", 240)+" 1")
	is.Equal(len(readLibrary(t, "<mxlibrary>[]</mxlibrary>", nil).Files), 0)
	twice := base64.StdEncoding.EncodeToString([]byte("<svg/>&#xa;"))
	raw := `[{"data":"data:image/svg+xml;base64,` + twice + `","title":"D&D"}]`
	is.Equal(readLibrary(t, `<mxlibrary>`+raw+`</mxlibrary>`, nil).Files[0].Symbol.Name, "D&D")
	is.Equal(readLibrary(t, "\ufeff<?xml version='1.0'?>\n<mxlibrary> <![CDATA["+raw+"]]>\n</mxlibrary>", nil).Files[0].Symbol.Name, "D&D")
	for _, broken := range []string{"<mxlibrary>" + raw, "<mxlibrary/>", "<mxlibrary>" + raw[:len(raw)-1] + "</mxlibrary>", "<mxlibrary>{}</mxlibrary>"} {
		is.True(strings.HasPrefix(rejections(readError(t, []byte(broken), nil)), ": broken draw.io library"))
	}
	for _, data := range []string{
		"data:image/svg+xml;base64," + strings.TrimRight(svg, "="), "DATA:image/svg+xml;Base64," + svg[:9] + " \n" + svg[9:],
		"data:image/svg+xml," + svg, "data:image/svg+xml," + url.PathEscape(drawing), "data:image/svg+xml;utf8," + drawing,
	} {
		contents := readLibrary(t, drawioLibrary(t, map[string]any{"data": data, "title": "d"}), nil)
		is.Equal(contents.Files[0].Symbol.Data, drawingData("d"))
	}
	for content, want := range map[string]string{ // line breaks are unescaped only in a broken SVG
		"<svg>&#xa;</svg>": "<svg>&#xa;</svg>", "<svg width='100%'/>": "<svg width='100%'/>", "<svg&#xa;/>": "<svg\n/>",
		"<!-- -->&#xa;<svg/>": "<!-- -->\n<svg/>", "<svg/>&#xa;": "<svg/>\n",
	} {
		data := "data:image/svg+xml," + strings.ReplaceAll(content, "<", "%3C")
		contents := readLibrary(t, drawioLibrary(t, map[string]any{"data": data, "title": "d"}), nil)
		is.True(strings.Contains(contents.Files[0].Symbol.Data, base64.StdEncoding.EncodeToString([]byte(want))))
	}
	good := `{"data":"data:image/svg+xml;base64,` + svg + `","title":"good"}`
	mistyped := `<mxlibrary>[` + good + `,{"title":"a","w":"9"},{"title":7},{"title":"b","tags":["t"]},"text",` + good + `]</mxlibrary>`
	skipped = readLibrary(t, mistyped, &bundle.Options{Skip: true, Folder: "F"})
	is.Equal(len(skipped.Files), 2)
	const wrong = "not an entry of a draw.io library: a value has the wrong type"
	is.Equal(skipped.Skipped, []bundle.FileNote{{File: "a", Reason: wrong}, {File: "F 3", Reason: wrong}, {File: "b", Reason: wrong}, {File: "F 5", Reason: wrong}})
	many := make([]map[string]any, 5000) // more text than is unescaped at once, with references at any place
	for i := range many {
		many[i] = map[string]any{"data": "data:image/svg+xml,<svg/>", "title": strings.Repeat("<&\">", i%50) + fmt.Sprint(i)}
	}
	for i, file := range readLibrary(t, drawioLibrary(t, many...), nil).Files {
		is.Equal(file.Symbol.Name, many[i]["title"])
	}
	bomb := drawioLibrary(t, map[string]any{"xml": deflated(t, strings.Repeat("a", 17<<20))})
	is.True(strings.Contains(fmt.Sprint(readError(t, []byte(bomb), nil)), "too large when decompressed"))
}

func TestWriteDrawio_RoundTrip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	tags := must(symbols.NewTags("a", "b"))(t)
	list := []symbols.Symbol{
		{ID: 1, Name: `Gate <"&'> valve`, Data: drawing, Tags: tags}, {ID: 2, Name: "text", Data: "x"}, {ID: 3, Name: "b", Data: drawing},
	}
	write := func(list []symbols.Symbol) string {
		var out bytes.Buffer
		is.NoErr(bundle.WriteDrawio(&out, func(int64) (symbols.Page, error) { return symbols.Page{Symbols: list}, nil }))
		return out.String()
	}
	contents := readLibrary(t, write(list), nil)
	is.Equal(len(contents.Files), 2)
	is.Equal(contents.Files[0].Symbol.Name, list[0].Name)
	is.Equal(contents.Files[0].Symbol.Tags, tags)
	is.Equal(contents.Files[0].Symbol.Data, drawingData(list[0].Name))
	is.Equal(contents.Files[0].Symbol.Meta, `{"height":48,"width":96}`)
	is.Equal(len(readLibrary(t, write(list[1:2]), nil).Files), 0)
}

func TestRead_IconSet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	contents := readLibrary(t, `{
		"prefix": "pid", "width": 24, "height": 20,
		"info": {"name": "P&ID", "author": {"name": "Ann"}, "license": {"title": "MIT License", "spdx": "MIT"}},
		"icons": {"valve": {"body": "<path d='M0 0h1'/>"}, "old": {"body": "<g/>", "hidden": true},
			"pump": {"body": "<use xlink:href='#a'/>", "width": 10, "left": 2}},
		"aliases": {"turned": {"parent": "valve", "rotate": 1, "hFlip": true}, "back": {"parent": "turned", "hFlip": true, "rotate": 3},
			"upside down": {"parent": "pump", "vFlip": true, "top": 3, "width": 12}, "twice": {"parent": "valve", "rotate": 2}, "gone": {"parent": "valve", "hidden": true}, "shown": {"parent": "old", "hidden": false}}
	}`, nil)
	svgs := make(map[string]string)
	for _, file := range contents.Files {
		var data struct{ Content []byte }
		is.NoErr(json.Unmarshal([]byte(file.Symbol.Data), &data))
		svgs[file.Symbol.Name] = string(data.Content)
	}
	const ns = `xmlns="http://www.w3.org/2000/svg"`
	is.Equal(svgs, map[string]string{
		"valve": `<svg ` + ns + ` width="24" height="20" viewBox="0 0 24 20"><path d='M0 0h1'/></svg>`,
		"pump":  `<svg ` + ns + ` xmlns:xlink="http://www.w3.org/1999/xlink" width="10" height="20" viewBox="2 0 10 20"><use xlink:href='#a'/></svg>`,
		"turned": `<svg ` + ns + ` width="20" height="24" viewBox="2 -2 20 24">` +
			`<g transform="rotate(90 12 10)"><g transform="translate(24 0) scale(-1 1)"><path d='M0 0h1'/></g></g></svg>`,
		"back":  `<svg ` + ns + ` width="24" height="20" viewBox="0 0 24 20"><path d='M0 0h1'/></svg>`,
		"twice": `<svg ` + ns + ` width="24" height="20" viewBox="0 0 24 20"><g transform="rotate(180 12 10)"><path d='M0 0h1'/></g></svg>`,
		"shown": `<svg ` + ns + ` width="24" height="20" viewBox="0 0 24 20"><g/></svg>`,
		"upside down": `<svg ` + ns + ` xmlns:xlink="http://www.w3.org/1999/xlink" width="12" height="20" viewBox="2 3 12 20">` +
			`<g transform="translate(0 26) scale(1 -1)"><use xlink:href='#a'/></g></svg>`,
	})
	is.Equal(contents.Files[1].Symbol.Meta, `{"author":"Ann","height":20,"license":"MIT","width":24}`)
	is.Equal(contents.Ignored, []bundle.FileNote{{File: "old", Reason: "hidden icon"}, {File: "gone", Reason: "hidden icon"}})
	mistyped := readLibrary(t, `{"prefix":"a","icons":{"a":{"body":"<g/>"},"b":{"body":"<g/>","width":"9"},"c":5},
		"aliases":{"d":{"parent":"b"},"e":{"parent":"a","rotate":"90deg"},"f":{"parent":"a"}}}`, &bundle.Options{Skip: true})
	is.Equal(len(mistyped.Files), 2)
	for i, name := range []string{"b", "c", "d", "e"} {
		is.Equal(mistyped.Skipped[i], bundle.FileNote{File: name, Reason: "not an icon: a value has the wrong type"})
	}
	for _, text := range []string{`{}`, `{"prefix":"a"}`, `{"icons":{"a":{"body":"<g/>"}}}`, `{"prefix":"a","icons":{"a":{}}}`,
		`{"prefix":"a","icons":{"a":{"body":"<g/>","width":0}}}`, `{"prefix":"a","icons":{"a":{"body":"<g/>","height":0}}}`,
		`{"prefix":"a","icons":{"a":{"body":"<g>"}}}`,
		`{"prefix":"a","icons":{},"aliases":{"a":{"parent":"a"}}}`,
	} {
		is.True(readError(t, []byte(text), nil) != nil)
	}
}

func TestRead_ZipOfPicturesAndLibraries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var jpg, gifs bytes.Buffer
	picture := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black})
	is.NoErr(jpeg.Encode(&jpg, picture, nil))
	is.NoErr(gif.Encode(&gifs, picture, nil))
	webp := "RIFF\x16\x00\x00\x00WEBPVP8L\x09\x00\x00\x00/\x02\x40\x00\x00\x00\x00\x00\x00\x00\x00"
	utf16SVG := binary.LittleEndian.AppendUint16(nil, 0xfeff)
	for _, unit := range utf16.Encode([]rune(`<?xml version="1.0" encoding="UTF-16"?>` + drawing)) {
		utf16SVG = binary.LittleEndian.AppendUint16(utf16SVG, unit)
	}
	archive := zipOf(t,
		file{name: "LICENSE", content: "MIT"}, file{name: "COPYING.lib"}, file{name: "V\x84ter/"}, file{name: "docs/notes.md", content: "x"}, file{name: "notes.txt", content: "x"},
		file{name: "valves/./../gate/a.jpg", content: jpg.String()}, file{name: "valves/b.GIF", content: gifs.String()},
		file{name: "c.webp", content: webp}, file{name: "wide.svg", content: string(utf16SVG)},
		file{name: "pipes/lib.xml", content: drawioLibrary(t, map[string]any{
			"data":  "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(drawing)),
			"title": "In a library", "tags": "t",
		})},
		file{name: "V\x84ter/V\x84ter.svg", content: drawing}, file{name: "fake.svg", content: pngOf(t, 3, 2)}, file{name: "x.pdf", content: "%PDF"},
		file{name: "License plates.xml", content: "<mxlibrary>[]</mxlibrary>"}, file{name: "copying.json", content: `{"prefix":"a","icons":{}}`},
		file{name: "license.svg", content: drawing}, file{name: "copying.gif", content: gifs.String()}, file{name: "fake.jpg", content: gifs.String()},
		file{name: "Readme.svg", content: drawing}, file{name: "README"}, file{name: "valves/Icon\r"},
		file{name: "._a.svg"}, file{name: "__MACOSX/a.svg"},
	)
	_, err := bundle.Read(t.Context(), archive, nil)
	is.Equal(rejections(err), "fake.svg: a PNG, not an SVG; x.pdf: neither a picture nor a library; fake.jpg: a GIF, not a JPEG")
	contents := must(bundle.Read(t.Context(), archive, &bundle.Options{Skip: true}))(t)
	var got []string
	for _, file := range contents.Files {
		s := file.Symbol
		got = append(got, fmt.Sprint(s.Name, " ", s.Type, " ", s.Tags.List()))
	}
	is.Equal(got, []string{
		"a image/jpeg [valves gate]", "b image/gif [valves]", "c image/webp []", "wide image/svg+xml []",
		"In a library image/svg+xml [pipes t]", "Väter image/svg+xml [Väter]", "license image/svg+xml []", "copying image/gif []",
		"Readme image/svg+xml []",
	})
	is.True(strings.Contains(contents.Files[0].Symbol.Data, `"width":3,"height":2}`))
	is.True(strings.Contains(contents.Files[2].Symbol.Data, `"width":3,"height":2}`))
	is.Equal(contents.Ignored, []bundle.FileNote{
		{File: "LICENSE", Reason: "documentation"}, {File: "COPYING.lib", Reason: "documentation"}, {File: "Väter/", Reason: "directory"},
		{File: "docs/notes.md", Reason: "documentation"}, {File: "notes.txt", Reason: "documentation"},
		{File: "README", Reason: "documentation"}, {File: "valves/Icon\r", Reason: "operating system file"},
		{File: "._a.svg", Reason: "operating system file"}, {File: "__MACOSX/a.svg", Reason: "operating system file"},
	})
	is.Equal(len(contents.Skipped), 3)

	one := readLibrary(t, drawing, &bundle.Options{Name: "Gate valve"})
	is.Equal(one.Files[0].Symbol.Data, drawingData("Gate valve"))
	is.Equal(readLibrary(t, jpg.String(), nil).Files[0].Symbol.Name, "symbol")
}

// TestRead_UnicodePath reads names in code page 866, of which one also has its UTF-8, and
// one a UTF-8 that belongs to another name.
func TestRead_UnicodePath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const name, other = "\x8f.svg", "\xab.svg"
	with := func(of string) func(*zip.FileHeader) {
		return func(header *zip.FileHeader) {
			field := binary.LittleEndian.AppendUint32([]byte{1}, crc32.ChecksumIEEE([]byte(of)))
			field = append(field, "П.svg"...)
			header.Extra = append([]byte{1, 0, 0, 0, 0x75, 0x70, byte(len(field)), 0}, field...)
		}
	}
	files := []file{{name: name, content: drawing, alter: with(name)}, {name: other, content: drawing, alter: with(name)}}
	for i, size := range []byte{0, 5, 255} { // of fields that are truncated
		extra := []byte{0x75, 0x70, size, 0, 1, 2, 3, 4, 5}
		files = append(files, file{name: fmt.Sprint(i, ".svg"), content: drawing, alter: func(header *zip.FileHeader) { header.Extra = extra }})
	}
	archive := zipOf(t, files...)
	contents := must(bundle.Read(t.Context(), archive, nil))(t)
	is.Equal(contents.Files[0].Name, "П.svg")
	is.Equal(contents.Files[0].Symbol.Name, "П")
	is.Equal(contents.Files[1].Symbol.Name, "½")
}

func TestRead_IconifyMetaIsValid(t *testing.T) {
	_, err := bundle.Read(t.Context(), []byte(`{"prefix":"a","icons":{"a":{"body":"<g/>"}},"info":{"author":{"name":"A\u0000B"}}}`), nil)
	rejected, ok := errors.AsType[*bundle.RejectedError](err)
	is.New(t).True(ok && rejected.Files[0].Reason == "meta must not contain a NUL character")
}

// TestRead_IconSetWithOldInfo: older sets have an author and a license as strings, which the
// tools of Iconify accept.
func TestRead_IconSetWithOldInfo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for info, meta := range map[string]string{
		`{"author":"Ann","license":"MIT"}`:    `{"author":"Ann","height":16,"license":"MIT","width":16}`,
		`{"author":1,"license":{"title":[]}}`: `{"height":16,"width":16}`,
	} {
		contents, err := bundle.Read(t.Context(), []byte(`{"prefix":"a","icons":{"a":{"body":"<g/>"}},"info":`+info+`}`), nil)
		is.NoErr(err)
		is.Equal(contents.Files[0].Symbol.Meta, meta)
	}
}

func TestWriteDrawio_KeepsNames(t *testing.T) {
	is := is.New(t)
	const name = "a\uffff\ufffeb\u2028c\x01<&>\"'\u0085"
	var out bytes.Buffer
	is.NoErr(bundle.WriteDrawio(&out, pagesOf([]symbols.NewSymbol{{Name: name, Type: "a/b", Data: drawing}}, 1)))
	contents := must(bundle.Read(t.Context(), out.Bytes(), nil))(t)
	is.Equal(contents.Files[0].Symbol.Name, name)
}

// iconSetFile returns the file of an npm package @iconify-json/... in the directory that
// CANVASBACK_TEST_ICONS names. It skips the test if there is none, but not with CI=true.
func iconSetFile(t *testing.T, name string) []byte {
	t.Helper()
	directory := os.Getenv("CANVASBACK_TEST_ICONS")
	content, err := os.ReadFile(filepath.Join(directory, name, "icons.json"))
	switch {
	case err == nil:
		return content
	case os.Getenv("CI") == "true":
		t.Fatalf("no icon set: CANVASBACK_TEST_ICONS must be node_modules/@iconify-json: %v", err)
	}
	t.Skip("no icon set: set CANVASBACK_TEST_ICONS to node_modules/@iconify-json")
	return nil
}

// TestRead_PublishedIconSets imports icon sets as they are published, and counts each icon.
func TestRead_PublishedIconSets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ imported, hidden int }{ // of the versions in .ci/run
		"mdi":    {13_782, 219}, // 28 of the hidden icons are aliases of hidden ones
		"tabler": {6_414, 48},
		"logos":  {2_073, 239},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			content := iconSetFile(t, name)
			type icon struct {
				Body, Parent string
				Hidden       bool
			}
			var set struct{ Icons, Aliases map[string]icon }
			is.NoErr(json.Unmarshal(content, &set))
			contents := readLibrary(t, string(content), &bundle.Options{Skip: true})
			is.Equal(contents.Skipped, nil)
			is.Equal(len(contents.Files), want.imported)
			is.Equal(len(contents.Ignored), want.hidden)
			is.Equal(len(contents.Files)+len(contents.Ignored), len(set.Icons)+len(set.Aliases))

			seen := make(map[string]bool)
			for _, file := range contents.Files {
				symbol := file.Symbol
				is.True(!seen[symbol.Name])
				seen[symbol.Name] = true
				found := set.Aliases[symbol.Name]
				parent := cmp.Or(found.Parent, symbol.Name)
				for found.Body == "" && !found.Hidden && parent != "" {
					found = cmp.Or(set.Icons[parent], set.Aliases[parent])
					parent = found.Parent
				}
				is.True(found.Body != "" && !found.Hidden)
				image, ok := picture.Find(symbol.Data)
				is.True(ok)
				is.Equal(image.Type, symbol.Type)
				is.True(strings.Contains(string(image.Content), found.Body))
				is.True(strings.Contains(symbol.Meta, `"width":`))
			}
		})
	}
}
