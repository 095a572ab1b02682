package bundle_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// checkRoundTrip exports symbols from one folder, imports the bundle into
// another and compares.
func checkRoundTrip(t *testing.T, given []symbols.NewSymbol) {
	t.Helper()
	is := is.New(t)
	ctx := t.Context()
	service := must(symbols.NewService(memory.New().Symbols(), &symbols.Options{PageSize: 1 << 10}))(t)
	from := must(service.CreateFolder(ctx, "from"))(t)
	to := must(service.CreateFolder(ctx, "to"))(t)
	must(service.CreateSymbols(ctx, from.ID, given))(t)
	var archive bytes.Buffer
	err := bundle.Write(&archive, from.Name, func(after int64) (symbols.Page, error) {
		return service.ListSymbols(ctx, from.ID, symbols.Range{After: after})
	})
	is.NoErr(err)
	contents := must(bundle.Read(ctx, archive.Bytes(), nil))(t)
	if len(contents.Ignored) > 0 {
		t.Errorf("ignored: %q", contents.Ignored)
	}
	must(service.CreateSymbols(ctx, to.ID, contents.Symbols()))(t)
	var got []symbols.NewSymbol
	for after, more := int64(0), true; more; {
		page := must(service.ListSymbols(ctx, to.ID, symbols.Range{After: after}))(t)
		for _, symbol := range page.Symbols {
			got = append(got, symbols.NewSymbol{
				Name: symbol.Name, Type: symbol.Type, Data: symbol.Data, Tags: symbol.Tags, Meta: symbol.Meta,
			})
			after = symbol.ID
		}
		more = page.More
	}
	is.Equal(len(got), len(given))
	for i := range given {
		if got[i] != given[i] {
			t.Errorf("symbol %d is restored as %+.300v, want %+.300v", i, got[i], given[i])
		}
	}
}

type generator struct{ *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

// text returns a text that can be stored.
func (g generator) text(maxRunes int) string {
	var text strings.Builder
	for range g.IntN(maxRunes + 1) {
		switch g.IntN(4) {
		case 0:
			text.WriteRune(1 + g.Int32N(0x7f))
		case 1:
			text.WriteString(g.pick(`"`, `\`, "/", "..", "\u2028", "\u202e", "e\u0301", "é", "K", "ß", "<", "&", "\ufffd", "\r\n"))
		case 2:
			text.WriteRune(0x1f300 + g.Int32N(0x200))
		default:
			text.WriteRune('a' + g.Int32N(26))
		}
	}
	return text.String()
}

func (g generator) name() string {
	const clashing = "aAbB.-1"
	switch g.IntN(6) {
	case 0:
		return g.pick("manifest.json", "Manifest.JSON", "manifest", "CON", "nul.svg", ".", "..", "a", "A", "a.svg", "a-1", "a-1.svg",
			"__MACOSX", ".DS_Store", "._a", "Thumbs.db", "desktop.ini", "/etc/passwd", `C:\x`, "\u202e", "symbol", "é", "e\u0301")
	case 1: // names that are equal after truncation
		return strings.Repeat(g.pick("x", "ä", "🦆"), 250) + fmt.Sprint(g.IntN(20))
	case 2:
		return strings.Repeat("y", g.IntN(254)) + "z"
	case 3:
		name := "."
		for range g.IntN(3) {
			name += string(clashing[g.IntN(len(clashing))])
		}
		return name
	default:
		return g.text(20) + "n"
	}
}

func (g generator) mimeType() string {
	return g.pick("image/svg+xml", "image/svg+xml", "image/png", "IMAGE/PNG", "text/plain", "text/html; charset=utf-8", "application/json", "a/b", "image/svg+xml;x=\"\\\"\"")
}

// base64 encodes random bytes, not always correctly.
func (g generator) base64() string {
	content := make([]byte, g.IntN(100))
	for i := range content {
		content[i] = byte(g.Uint32())
	}
	encoded := base64.StdEncoding.EncodeToString(content)
	switch g.IntN(16) {
	case 0:
		return "data:image/png;base64," + encoded
	case 1:
		return "data:image/svg+xml;charset=utf-8;base64," + encoded
	case 2:
		return "data:," + encoded
	case 3:
		return base64.RawStdEncoding.EncodeToString(content)
	case 4:
		return base64.URLEncoding.EncodeToString(content)
	case 5:
		return encoded + g.pick("\n", " ", "=", "A", "AAAA", "é")
	case 6:
		return g.text(20)
	case 7:
		return ""
	case 8, 9: // set trailing bits that decoders ignore
		if last := strings.IndexByte(encoded, '=') - 1; last > 0 {
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
			return encoded[:last] + string(alphabet[strings.IndexByte(alphabet, encoded[last])|1]) + encoded[last+1:]
		}
	}
	return encoded
}

// json encodes a string in one of several ways.
func (g generator) json(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	switch g.IntN(6) {
	case 0:
		return strings.ReplaceAll(string(encoded), "/", `\/`)
	case 1:
		if len(text) > 0 && text[0] > ' ' && text[0] < 0x7f {
			return fmt.Sprintf(`"\u%04x`, text[0]) + strings.TrimPrefix(string(encoded[1:]), g.pick(text[:1], "\x00"))
		}
	}
	return string(encoded)
}

func (g generator) data(name, mimeType string) string {
	switch g.IntN(8) {
	case 0:
		return g.text(50) + "x"
	case 1:
		return g.pick(drawing, " "+drawing, "{}", "[]", "null", "{", "data:image/png;base64,AAAA", "AAAA", "PK\x05\x06", `{"content":"AAAA"}`)
	}
	encoded := g.base64()
	fields := []string{
		`"name"` + g.pick(":", " : ") + g.json(name),
		`"type":` + g.json(mimeType),
		g.pick(`"content"`, `"content"`, `"\u0063ontent"`, `"Content"`) + g.pick(":", ":\n") + g.json(encoded),
		`"width":` + g.pick("96", "1.5", "null", "1e2", `"96"`),
		`"height":` + g.pick("96", "0", "-1"),
	}
	if g.IntN(4) == 0 {
		fields = append(fields, `"content":`+g.json(g.base64()))
	}
	if g.IntN(4) == 0 {
		fields = append(fields, g.json(g.text(5))+":"+g.pick("1", "{}", `["`+strings.ReplaceAll(encoded, "\n", "")+`"]`, g.json(encoded)))
	}
	if g.IntN(20) == 0 {
		fields = append(fields, `"notes":`+g.json(g.text(2000)))
	}
	if g.IntN(3) == 0 {
		g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if g.IntN(10) == 0 {
		fields = fields[1:]
	}
	return g.pick("", "", " ", "\n") + "{" + strings.Join(fields, g.pick(",", ", ", ",\n\t")) + g.pick("}", "}", " }\n", "", "}x")
}

func TestRoundTrip_IsExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		var list []symbols.NewSymbol
		for range 1 + g.IntN(60) {
			name, mimeType := g.name(), g.mimeType()
			symbol := symbols.NewSymbol{Name: name, Type: mimeType, Data: g.data(name, mimeType)}
			if symbol.Check() == nil {
				list = append(list, symbol)
			}
		}
		if len(list) == 0 {
			continue
		}
		if checkRoundTrip(t, list); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestRoundTrip_LargeAndCompressibleSymbols(t *testing.T) {
	t.Parallel()
	checkRoundTrip(t, append(mixedSymbols(t),
		symbols.NewSymbol{Name: "blank", Type: "text/plain", Data: strings.Repeat(" ", 4<<20)},
		symbols.NewSymbol{Name: "envelope", Type: "image/png", Data: viewerData(strings.Repeat("\u2028", 600), "image/png", "abc")},
	))
}

// TestRoundTrip_LongestManifest checks that maxManifestEntry suffices for the
// longest entries that Write writes.
func TestRoundTrip_LongestManifest(t *testing.T) {
	t.Parallel()
	var list []symbols.NewSymbol
	for i := range 100 {
		data := fmt.Sprintf(`{"name":"%s","type":"","content":"AAAA","width":%d,"height":1}`, strings.Repeat("\u2028", 660), i)
		list = append(list, symbols.NewSymbol{
			Name: strings.Repeat("\x01", 254) + "n",
			Type: `a/b;c="` + strings.Repeat("\u2028", 200) + `"`,
			Data: data,
		})
	}
	archive := writeBundle(t, strings.Repeat("\x01", 254)+"n", list...)
	contents, err := bundle.Read(t.Context(), archive, &bundle.Options{Limits: bundle.Limits{Entries: 101}})
	if err != nil || len(contents.Files) != 100 {
		t.Fatal(err)
	}
	manifest := unzip(t, archive)[100]
	if manifest.name != "manifest.json" || len(manifest.content) < 100*5<<10 {
		t.Errorf("%s has only %d bytes", manifest.name, len(manifest.content))
	}
}

func FuzzRoundTrip(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range 50 {
		a, b := g.name(), g.name()
		f.Add(a, g.mimeType(), g.data(a, "a/b"), b, g.data(b, "a/b"))
	}
	f.Fuzz(func(t *testing.T, name, mimeType, data, name2, data2 string) {
		var list []symbols.NewSymbol
		for _, given := range [][2]string{{name, data}, {name2, data2}, {name, data2}} {
			if symbol := (symbols.NewSymbol{Name: given[0], Type: mimeType, Data: given[1]}); symbol.Check() == nil {
				list = append(list, symbol)
			}
		}
		if len(list) > 0 {
			checkRoundTrip(t, list)
		}
	})
}
