package bundle_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// checkRoundTrip exports symbols from a folder of a service, imports the bundle
// into an empty one, and compares.
func checkRoundTrip(t *testing.T, given []symbols.NewSymbol) {
	t.Helper()
	ctx := t.Context()
	service := symbols.NewService(memory.New().Symbols(), &symbols.Options{PageSize: 1 << 10})
	from, err := service.CreateFolder(ctx, "from")
	if err != nil {
		t.Fatal(err)
	}
	to, err := service.CreateFolder(ctx, "to")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.CreateSymbols(ctx, from.ID, given); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	err = bundle.Write(&archive, from.Name, func(after int64) (symbols.Page, error) {
		return service.ListSymbols(ctx, from.ID, after)
	})
	if err != nil {
		t.Fatal(err)
	}
	contents, err := bundle.Read(ctx, archive.Bytes(), nil)
	if err != nil {
		t.Fatalf("%v: %+v", err, err)
	}
	if len(contents.Ignored) > 0 {
		t.Errorf("ignored: %q", contents.Ignored)
	}
	if _, err := service.CreateSymbols(ctx, to.ID, contents.Symbols()); err != nil {
		t.Fatal(err)
	}
	var got []symbols.NewSymbol
	for after, more := int64(0), true; more; {
		page, err := service.ListSymbols(ctx, to.ID, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, symbol := range page.Symbols {
			got = append(got, symbols.NewSymbol{Name: symbol.Name, Type: symbol.Type, Data: symbol.Data})
			after = symbol.ID
		}
		more = page.More
	}
	if len(got) != len(given) {
		t.Fatalf("%d symbols come back, want %d", len(got), len(given))
	}
	for i := range given {
		if got[i] != given[i] {
			t.Errorf("symbol %d comes back as %.300q, want %.300q", i, got[i], given[i])
		}
	}
}

// maker makes symbols by chance.
type maker struct{ *rand.Rand }

func (m maker) pick(list ...string) string { return list[m.IntN(len(list))] }

// text is anything that can be stored.
func (m maker) text(most int) string {
	var text strings.Builder
	for range m.IntN(most + 1) {
		switch m.IntN(4) {
		case 0:
			text.WriteRune(1 + m.Int32N(0x7f))
		case 1:
			text.WriteString(m.pick(`"`, `\`, "/", "..", "\u2028", "\u202e", "e\u0301", "é", "K", "ß", "<", "&", "\ufffd", "\r\n"))
		case 2:
			text.WriteRune(0x1f300 + m.Int32N(0x200))
		default:
			text.WriteRune('a' + m.Int32N(26))
		}
	}
	return text.String()
}

func (m maker) name() string {
	const clashing = "aAbB.-1"
	switch m.IntN(6) {
	case 0:
		return m.pick("manifest.json", "Manifest.JSON", "manifest", "CON", "nul.svg", ".", "..", "a", "A", "a.svg", "a-1", "a-1.svg",
			"__MACOSX", ".DS_Store", "._a", "Thumbs.db", "desktop.ini", "/etc/passwd", `C:\x`, "\u202e", "symbol", "é", "e\u0301")
	case 1: // names that are the same for as long as a file name may be
		return strings.Repeat(m.pick("x", "ä", "🦆"), 250) + fmt.Sprint(m.IntN(20))
	case 2:
		return strings.Repeat("y", m.IntN(254)) + "z"
	case 3:
		name := "."
		for range m.IntN(3) {
			name += string(clashing[m.IntN(len(clashing))])
		}
		return name
	default:
		return m.text(20) + "n"
	}
}

func (m maker) mimeType() string {
	return m.pick("image/svg+xml", "image/svg+xml", "image/png", "IMAGE/PNG", "text/plain", "text/html; charset=utf-8", "application/json", "a/b", "image/svg+xml;x=\"\\\"\"")
}

// base64 is a spelling of some bytes.
func (m maker) base64() string {
	content := make([]byte, m.IntN(100))
	for i := range content {
		content[i] = byte(m.Uint32())
	}
	encoded := base64.StdEncoding.EncodeToString(content)
	switch m.IntN(16) {
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
		return encoded + m.pick("\n", " ", "=", "A", "AAAA", "é")
	case 6:
		return m.text(20)
	case 7:
		return ""
	case 8, 9: // with bits set that decoders drop
		if last := strings.IndexByte(encoded, '=') - 1; last > 0 {
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
			return encoded[:last] + string(alphabet[strings.IndexByte(alphabet, encoded[last])|1]) + encoded[last+1:]
		}
	}
	return encoded
}

// json is a spelling of a string.
func (m maker) json(text string) string {
	spelled, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	switch m.IntN(6) {
	case 0:
		return strings.ReplaceAll(string(spelled), "/", `\/`)
	case 1:
		if len(text) > 0 && text[0] > ' ' && text[0] < 0x7f {
			return fmt.Sprintf(`"\u%04x`, text[0]) + strings.TrimPrefix(string(spelled[1:]), m.pick(text[:1], "\x00"))
		}
	}
	return string(spelled)
}

func (m maker) data(name, mimeType string) string {
	switch m.IntN(8) {
	case 0:
		return m.text(50) + "x"
	case 1:
		return m.pick(drawing, " "+drawing, "{}", "[]", "null", "{", "data:image/png;base64,AAAA", "AAAA", "PK\x05\x06", `{"content":"AAAA"}`)
	}
	encoded := m.base64()
	fields := []string{
		`"name"` + m.pick(":", " : ") + m.json(name),
		`"type":` + m.json(mimeType),
		m.pick(`"content"`, `"content"`, `"\u0063ontent"`, `"Content"`) + m.pick(":", ":\n") + m.json(encoded),
		`"width":` + m.pick("96", "1.5", "null", "1e2", `"96"`),
		`"height":` + m.pick("96", "0", "-1"),
	}
	if m.IntN(4) == 0 {
		fields = append(fields, `"content":`+m.json(m.base64()))
	}
	if m.IntN(4) == 0 {
		fields = append(fields, m.json(m.text(5))+":"+m.pick("1", "{}", `["`+strings.ReplaceAll(encoded, "\n", "")+`"]`, m.json(encoded)))
	}
	if m.IntN(20) == 0 {
		fields = append(fields, `"notes":`+m.json(m.text(2000)))
	}
	if m.IntN(3) == 0 {
		m.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if m.IntN(10) == 0 {
		fields = fields[1:]
	}
	return m.pick("", "", " ", "\n") + "{" + strings.Join(fields, m.pick(",", ", ", ",\n\t")) + m.pick("}", "}", " }\n", "", "}x")
}

func TestRoundTrip_isExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		m := maker{rand.New(rand.NewPCG(seed, 0))}
		var list []symbols.NewSymbol
		for range 1 + m.IntN(60) {
			name, mimeType := m.name(), m.mimeType()
			symbol := symbols.NewSymbol{Name: name, Type: mimeType, Data: m.data(name, mimeType)}
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

func TestRoundTrip_ofLargeAndCompressibleSymbols(t *testing.T) {
	t.Parallel()
	checkRoundTrip(t, append(mixed(t),
		symbols.NewSymbol{Name: "blank", Type: "text/plain", Data: strings.Repeat(" ", 4<<20)},
		symbols.NewSymbol{Name: "around", Type: "image/png", Data: usual(strings.Repeat("\u2028", 600), "image/png", "abc")},
	))
}

// TestRoundTrip_ofTheLongestManifest: the bound of a manifest lets through what
// was written.
func TestRoundTrip_ofTheLongestManifest(t *testing.T) {
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
	archive := write(t, strings.Repeat("\x01", 254)+"n", list...)
	contents, err := bundle.Read(t.Context(), archive, &bundle.Limits{Entries: 101})
	if err != nil || len(contents.Files) != 100 {
		t.Fatal(err)
	}
	manifest := unzip(t, archive)[100]
	if manifest.name != "manifest.json" || len(manifest.content) < 100*5<<10 {
		t.Errorf("%s has %d bytes only", manifest.name, len(manifest.content))
	}
}

func FuzzRoundTrip(f *testing.F) {
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for range 50 {
		a, b := m.name(), m.name()
		f.Add(a, m.mimeType(), m.data(a, "a/b"), b, m.data(b, "a/b"))
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
