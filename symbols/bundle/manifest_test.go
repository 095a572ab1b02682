package bundle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// two are the files of a good bundle: a drawing, a text and the manifest.
func two(t *testing.T) []file {
	return unzip(t, write(t, "F",
		symbols.NewSymbol{Name: "drawing", Type: "image/svg+xml", Data: usual("drawing", "image/svg+xml", drawing)},
		symbols.NewSymbol{Name: "text", Type: "text/plain", Data: "hello"},
	))
}

func TestRead_bundleThatWasPackedAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	files := two(t)
	again := []file{{name: "__MACOSX/._Symbols"}, {name: "Symbols/"}, {name: "Symbols/.DS_Store"}}
	for _, i := range []int{2, 1, 0} { // in another order
		again = append(again, file{name: "Symbols/" + files[i].name, content: files[i].content})
	}
	contents, err := bundle.Read(t.Context(), zipOf(t, again...), nil)
	is.NoErr(err)
	is.Equal(len(contents.Ignored), 3)
	is.Equal(len(contents.Files), 2)
	is.Equal(contents.Files[0].Name, "Symbols/drawing.svg") // as the manifest has them
	is.Equal(contents.Files[0].Symbol.Data, usual("drawing", "image/svg+xml", drawing))
	is.Equal(contents.Files[1], bundle.File{Name: "Symbols/text.txt", Symbol: symbols.NewSymbol{Name: "text", Type: "text/plain", Data: "hello"}})
}

func TestRead_refusesABundleThatWasChanged(t *testing.T) {
	t.Parallel()
	manifest := func(old, new string) func([]file) []file {
		return func(files []file) []file {
			files[2].content = strings.Replace(files[2].content, old, new, 1)
			return files
		}
	}
	whole := func(content string) func([]file) []file {
		return func(files []file) []file { files[2].content = content; return files }
	}
	const head = `{"format":"canvasback-symbols","version":1,"symbols":`
	for _, c := range []struct {
		change func([]file) []file
		want   string
	}{
		{func(f []file) []file { return f[1:] }, "drawing.svg: not in the zip, but listed in manifest.json"},
		{func(f []file) []file { return append(f, file{name: "more.svg", content: drawing}) }, "more.svg: not listed in manifest.json"},
		{func(f []file) []file { return append(f, f[0]) }, "drawing.svg: more than one file has this name"},
		{func(f []file) []file { return append(f, f[2]) }, "manifest.json: more than one file has this name"},
		{func(f []file) []file { f[1].content = "hallo"; return f }, "text.txt: changed: its SHA-256 is not the one in manifest.json"},
		{func(f []file) []file { f[1].content = "hello!"; return f }, "text.txt: changed: its size is not the one in manifest.json"},
		{func(f []file) []file { f[0].content, f[1].content = "", "x"; return f }, "drawing.svg: changed: its size is not the one in manifest.json; " +
			"text.txt: changed: its size is not the one in manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"drawing.svg"`), "drawing.svg: listed more than once in manifest.json; text.txt: not listed in manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"../text.txt"`), "../text.txt: not in the zip, but listed in manifest.json; text.txt: not listed in manifest.json"},
		{manifest(`"file":"text.txt"`, `"file":"manifest.json"`), "manifest.json: not in the zip, but listed in manifest.json; text.txt: not listed in manifest.json"},
		{manifest(`"name":"text"`, `"name":" "`), "text.txt: name must not be empty"},
		{manifest(`"type":"text/plain"`, `"type":"text"`), `text.txt: type must be a MIME type such as "image/svg+xml"`},
		{manifest(`"before":"`, `"before":"\u0000`), "drawing.svg: data must not contain a NUL character"},
		{manifest(`"version":1`, `"version":2`), "manifest.json: version 2 of the format is not known here"},
		{manifest(`"version":1,`, ``), "manifest.json: version 0 of the format is not known here"},
		{manifest(`"format":"canvasback-symbols"`, `"format":"x"`), "manifest.json: not a manifest of symbols: format is not canvasback-symbols"},
		{manifest(`"size":5`, `"size":"5"`), "manifest.json: not a manifest of symbols: symbols[1] is not one"},
		{manifest(`"size":5`, `"size":-5`), "text.txt: changed: its size is not the one in manifest.json"},
		{manifest("]}", "]"), "manifest.json: not a manifest of symbols"},
		{manifest("text", "\xff"), "manifest.json: not a manifest of symbols"},
		{whole(""), "manifest.json: not a manifest of symbols"},
		{whole(`{"name":"a web app","icons":[]}`), "manifest.json: not a manifest of symbols: format is not canvasback-symbols"},
		{whole(head + `null}`), "manifest.json: not a manifest of symbols: symbols is not a list"},
		{whole(head + `{}}`), "manifest.json: not a manifest of symbols: symbols is not a list"},
		{whole(head + `[1]}`), "manifest.json: not a manifest of symbols: symbols[0] is not one"},
		{whole(head + `[]}`), "drawing.svg: not listed in manifest.json; text.txt: not listed in manifest.json"},
		{whole(head + `[null]}`), ": not in the zip, but listed in manifest.json; drawing.svg: not listed in manifest.json; text.txt: not listed in manifest.json"},
	} {
		contents, err := bundle.Read(t.Context(), zipOf(t, c.change(two(t))...), nil)
		if got := reasons(err); got != c.want || contents != nil || !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
