package bundle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// FuzzRead checks that Read returns valid symbols within its limits, or one of
// its errors.
func FuzzRead(f *testing.F) {
	image := pngOf(f, 3, 2)
	plain := zipOf(f, file{name: "a.svg", content: drawing}, file{name: "d/"}, file{name: "d/b.png", content: image}, file{name: "Thumbs.db"})
	bundled := writeBundle(f, "F",
		symbols.NewSymbol{Name: "drawing", Type: "image/svg+xml", Data: viewerData("drawing", "image/svg+xml", drawing)},
		symbols.NewSymbol{Name: "text", Type: "text/plain", Data: strings.Repeat("hello ", 50)},
	)
	manifest := unzip(f, bundled)[2].content
	for _, seed := range [][]byte{
		nil, []byte("PK\x05\x06"), plain, bundled, plain[:len(plain)/2],
		directoryOnlyZip(3, 3), directoryOnlyZip(100, 1),
		zipOf(f, file{name: "a.svg", content: drawing, alter: func(h *zip.FileHeader) { h.Flags |= 8 }}),
		zipOf(f, file{name: "a.svg", content: drawing, alter: func(h *zip.FileHeader) { h.Extra = make([]byte, 28); h.Extra[0] = 1; h.Extra[2] = 24 }}),
		zipOf(f, file{name: "manifest.json", content: manifest}, file{name: "text.txt", content: "hello"}),
		zipOf(f, file{name: "x/manifest.json", content: `{"format":"canvasback-symbols","version":1,"symbols":[{"file":"a"}]}`}, file{name: "x/a"}),
		deflatedZip(f, "a.svg", blankSVG(1)),
		deflatedZip(f, "a.png", blankSVG(8)),
		append([]byte("#!/bin/sh\n"), plain...),
		append(bytes.Clone(plain), bundled...),
	} {
		f.Add(seed)
	}
	f.Fuzz(checkRead)
}

// FuzzReadFiles is FuzzRead for archives whose zip format is valid.
func FuzzReadFiles(f *testing.F) {
	f.Add("a.png", pngOf(f, 3, 2), "")
	for _, svg := range []string{
		drawing, `<!DOCTYPE svg [<!ENTITY a "b">]><svg width="&a;" viewBox="0 0 1 1">&a;</svg>`, "<svg><a><b/></a>",
		`<?xml version="1.0" encoding="latin-1"?><svg/>`, `<?xml version="1.0" encoding="iso-8859-1"?><svg>` + "\xff</svg>",
		`<svg width="1e1mm" height="50%" viewBox="0,0 1 2"/>`, `<svg viewBox="0 0 1e-300 1e300" width="1e300in"/>`,
	} {
		f.Add("a.svg", svg, "")
	}
	f.Add("a.svg", "abc", `{"format":"canvasback-symbols","version":1,"symbols":[{"file":"a.svg","name":"a","type":"a/b","size":3,`+
		`"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","before":"x","after":"y"}]}`)
	f.Fuzz(func(t *testing.T, name, content, manifest string) {
		if len(name) > 1000 || strings.HasSuffix(name, "/") { // directories have no content
			return
		}
		files := []file{{name: name, content: content}}
		if manifest != "" {
			files = append(files, file{name: "manifest.json", content: manifest})
		}
		checkRead(t, zipOf(t, files...))
	})
}

func checkRead(t *testing.T, archive []byte) {
	limits := bundle.Limits{Entries: 20, Symbol: 64 << 10, Total: 256 << 10, Ratio: 50}
	contents, err := bundle.Read(t.Context(), archive, &bundle.Options{Limits: limits})
	if err != nil {
		rejected := new(bundle.RejectedError)
		switch {
		case !errors.Is(err, bundle.ErrInvalid) && !errors.Is(err, bundle.ErrTooLarge), contents != nil:
			t.Errorf("error %v with contents %v", err, contents)
		case errors.As(err, &rejected) && (rejected.Count < len(rejected.Files) || len(rejected.Files) == 0):
			t.Errorf("%d files are rejected, %q are listed", rejected.Count, rejected.Files)
		}
		return
	}
	total := 0
	for _, file := range contents.Files {
		total += len(file.Symbol.Data)
		if err := file.Symbol.Check(); err != nil || len(file.Symbol.Data) > int(limits.Symbol) {
			t.Errorf("%q: %v, %d bytes", file.Name, err, len(file.Symbol.Data))
		}
	}
	if n := len(contents.Files); n+len(contents.Ignored) > limits.Entries || total > int(limits.Total) {
		t.Errorf("%d symbols, %d ignored, %d bytes", n, len(contents.Ignored), total)
	}
	// What was read survives a round trip.
	restored, err := bundle.Read(t.Context(), writeBundle(t, "F", contents.Symbols()...), &bundle.Options{Limits: bundle.Limits{Total: 8 << 20}})
	if err != nil {
		t.Fatal(rejections(err))
	}
	for i, symbol := range restored.Symbols() {
		if symbol != contents.Files[i].Symbol {
			t.Errorf("%+v is restored as %+v", contents.Files[i].Symbol, symbol)
		}
	}
}
