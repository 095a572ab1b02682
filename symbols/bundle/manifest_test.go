package bundle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/text/unicode/norm"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// validBundle returns the files of a bundle: a drawing, a text and the manifest.
func validBundle(t *testing.T) []file {
	return unzip(t, writeBundle(t, "F",
		symbols.NewSymbol{Name: "drawing", Type: "image/svg+xml", Data: viewerData("drawing", "image/svg+xml", drawing)},
		symbols.NewSymbol{Name: "text", Type: "text/plain", Data: "hello"},
	))
}

func TestRead_RepackedBundle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	files := validBundle(t)
	repacked := []file{{name: "__MACOSX/._Symbols"}, {name: "Symbols/"}, {name: "Symbols/.DS_Store"}}
	for _, i := range []int{2, 1, 0} { // reversed
		repacked = append(repacked, file{name: "Symbols/" + files[i].name, content: files[i].content})
	}
	contents := must(bundle.Read(t.Context(), zipOf(t, repacked...), nil))(t)
	is.Equal(len(contents.Ignored), 3)
	is.Equal(len(contents.Files), 2)
	is.Equal(contents.Files[0].Name, "Symbols/drawing.svg") // in the order of the manifest
	is.Equal(contents.Files[0].Symbol.Data, viewerData("drawing", "image/svg+xml", drawing))
	is.Equal(contents.Files[1], bundle.File{Name: "Symbols/text.txt", Symbol: symbols.NewSymbol{Name: "text", Type: "text/plain", Data: "hello"}})
}

// TestRead_BundleRepackedElsewhere has names as programs of macOS and Windows write them.
func TestRead_BundleRepackedElsewhere(t *testing.T) {
	t.Parallel()
	files := unzip(t, writeBundle(t, "F", symbols.NewSymbol{Name: "Ventil für Öl", Type: "text/plain", Data: "hello"}))
	for program, rename := range map[string]func(string) string{
		"NFD manifest": norm.NFD.String,
		"NFD":          norm.NFD.String,
		"code page":    func(name string) string { return strings.NewReplacer("ü", "\x81", "Ö", "\x99").Replace(name) },
		"backslash":    func(name string) string { return strings.ReplaceAll(name, "/", `\`) },
		"no directory": func(name string) string { return strings.TrimPrefix(name, "F/") },
	} {
		written := func(name string) string { return name }
		if program == "NFD manifest" { // of another program
			written = rename
		}
		var repacked []file
		for _, f := range files {
			content := strings.ReplaceAll(f.content, "Ventil für Öl.txt", written("Ventil für Öl.txt"))
			repacked = append(repacked, file{name: rename("F/" + f.name), content: content})
		}
		contents, err := bundle.Read(t.Context(), zipOf(t, repacked...), nil)
		if err != nil || contents.Files[0].Symbol.Data != "hello" {
			t.Errorf("%s: %s", program, rejections(err))
		}
	}
}

func TestRead_RejectsChangedBundle(t *testing.T) {
	t.Parallel()
	manifest := func(old, new string) func([]file) []file {
		return func(files []file) []file {
			files[2].content = strings.Replace(files[2].content, old, new, 1)
			return files
		}
	}
	replace := func(content string) func([]file) []file {
		return func(files []file) []file { files[2].content = content; return files }
	}
	const head = `{"format":"canvasback-symbols","version":1,"symbols":`
	for _, c := range []struct {
		change func([]file) []file
		want   string
	}{
		{func(f []file) []file { return f[1:] }, "drawing.svg: listed in manifest.json but not in the zip"},
		{func(f []file) []file { return append(f, file{name: "more.svg", content: drawing}) }, "more.svg: not listed in manifest.json"},
		{func(f []file) []file { return append(f, f[0]) }, "drawing.svg: more than one file has this name"},
		{func(f []file) []file { return append(f, f[2]) }, "manifest.json: more than one file has this name"},
		{func(f []file) []file { f[1].content = "hallo"; return f }, "text.txt: changed: SHA-256 differs from manifest.json"},
		{func(f []file) []file { f[1].content = "hello!"; return f }, "text.txt: changed: size differs from manifest.json"},
		{func(f []file) []file { f[0].content, f[1].content = "", "x"; return f }, "drawing.svg: changed: size differs from manifest.json; " +
			"text.txt: changed: size differs from manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"drawing.svg"`), "drawing.svg: listed more than once in manifest.json; text.txt: not listed in manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"../text.txt"`), "../text.txt: listed in manifest.json but not in the zip; text.txt: not listed in manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"manifest.json"`), "manifest.json: listed in manifest.json but not in the zip; text.txt: not listed in manifest.json"},
		{manifest(`"name":"text"`, `"name":" "`), "text.txt: name must not be empty"},
		{manifest(`"type":"text/plain"`, `"type":"text"`), `text.txt: type must be a MIME type such as "image/svg+xml"`},
		{manifest(`"before":"`, `"before":"\u0000`), "drawing.svg: data must not contain a NUL character"},
		{manifest(`"version":1`, `"version":2`), "manifest.json: unsupported format version 2"},
		{manifest(`"version":1,`, ``), "manifest.json: unsupported format version 0"},
		{manifest(`"format":"canvasback-symbols"`, `"format":"x"`), "manifest.json: not a symbol manifest: format is not canvasback-symbols"},
		{manifest(`"size":5`, `"size":"5"`), "manifest.json: not a symbol manifest: symbols[1] is invalid"},
		{manifest(`"size":5`, `"size":-5`), "text.txt: changed: size differs from manifest.json"},
		{manifest("]}", "]"), "manifest.json: not a symbol manifest"},
		{manifest("text", "\xff"), "manifest.json: not a symbol manifest"},
		{replace(""), "manifest.json: not a symbol manifest"},
		{replace(`{"name":"a web app","icons":[]}`), "manifest.json: not a symbol manifest: format is not canvasback-symbols"},
		{replace(head + `null}`), "manifest.json: not a symbol manifest: symbols is not an array"},
		{replace(head + `{}}`), "manifest.json: not a symbol manifest: symbols is not an array"},
		{replace(head + `[1]}`), "manifest.json: not a symbol manifest: symbols[0] is invalid"},
		{replace(head + `[]}`), "drawing.svg: not listed in manifest.json; text.txt: not listed in manifest.json"},
		{replace(head + `[null]}`), ": listed in manifest.json but not in the zip; drawing.svg: not listed in manifest.json; text.txt: not listed in manifest.json"},
	} {
		contents, err := bundle.Read(t.Context(), zipOf(t, c.change(validBundle(t))...), nil)
		if got := rejections(err); got != c.want || contents != nil || !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
