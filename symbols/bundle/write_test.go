package bundle_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports/ziptest"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

func crcOf(content string) uint32 { return crc32.ChecksumIEEE([]byte(content)) }

func TestWrite_ExtractsFiles(t *testing.T) {
	t.Parallel()
	const svg, png = "image/svg+xml", "image/png"
	const url = `{"name":"n","type":"t","content":"data:image/svg+xml;base64,PHN2Zy8+","width":1,"height":null}`
	for _, c := range []struct {
		name, mimeType, data string
		entry, content       string
	}{
		{"Gate valve", svg, viewerData("Gate valve", svg, drawing), "Gate valve.svg", drawing},
		{"Photo", png, viewerData("Photo", png, "\x89PNG\x00"), "Photo.png", "\x89PNG\x00"},
		{"done.SVG", svg, viewerData("x", svg, "<svg/>"), "done.SVG", "<svg/>"},
		{"v1.2", svg + "; charset=utf-8", viewerData("x", svg, "<svg/>"), "v1.2.svg", "<svg/>"},
		{"unknown", "image/x-own", viewerData("x", svg, "abc"), "unknown", "abc"},
		{"a/b\\c:d", svg, viewerData("x", svg, "abc"), "a_b_c_d.svg", "abc"},
		{"CON", svg, viewerData("x", svg, "abc"), "_CON.svg", "abc"},
		{"..", svg, viewerData("x", svg, "abc"), "symbol.svg", "abc"},
		{"\u202e", svg, viewerData("x", svg, "abc"), "symbol.svg", "abc"},
		{"manifest.json", "application/json", viewerData("x", svg, "{}"), "manifest-1.json", "{}"},
		{"manifest", "application/json", viewerData("x", svg, "{}"), "manifest-1.json", "{}"},
		{strings.Repeat("ä", 255), svg, viewerData("x", svg, "abc"), strings.Repeat("ä", 100) + ".svg", "abc"},
		{"spaced", svg, " {\n \"type\" : \"t\", \"height\":1.5, \"width\":\"1\", \"name\":\"\", \"content\" : \"YWJj\" } ", "spaced.svg", "abc"},
		{"more fields", svg, `{"id":1,"name":"n","type":"t","content":"YWJj","width":1,"height":1,"x":{"y":[]}}`, "more fields.svg", "abc"},
		{"twice the same", svg, `{"name":"YWJj","type":"t","content":"YWJj","width":1,"height":1}`, "twice the same.svg", "abc"},
		{"url", svg, url, "url.svg", "<svg/>"},

		// Data that cannot be split and restored exactly is the file.
		{"text", "text/plain", "hello", "text.txt", "hello"},
		{"text", png, "hello", "text.txt", "hello"},
		{"drawing", svg, drawing, "drawing.svg", drawing},
		{"page", "text/html", "<p>", "page.html", "<p>"},
		{"angle", png, "<", "angle.txt", "<"},
		{"other", svg, `{"a":1}`, "other.json", `{"a":1}`},
		{"truncated", svg, `{"a":1`, "truncated.txt", `{"a":1`},
		{"empty", svg, viewerData("x", svg, ""), "empty.json", viewerData("x", svg, "")},
		{"escaped", svg, `{"name":"n","type":"t","content":"YWJ\u006a","width":1,"height":1}`, "escaped.json", ""},
		{"unpadded", svg, `{"name":"n","type":"t","content":"YQ","width":1,"height":1}`, "unpadded.json", ""},
		{"trailing bits", svg, `{"name":"n","type":"t","content":"YR==","width":1,"height":1}`, "trailing bits.json", ""},
		{"lines", svg, `{"name":"n","type":"t","content":"YWJj\n","width":1,"height":1}`, "lines.json", ""},
		{"url alphabet", svg, `{"name":"n","type":"t","content":"_-_-","width":1,"height":1}`, "url alphabet.json", ""},
		{"URL of text", svg, `{"name":"n","type":"t","content":"data:image/svg+xml,%3Csvg/%3E","width":1,"height":1}`, "URL of text.json", ""},
		{"no width", svg, `{"name":"n","type":"t","content":"YWJj","height":1}`, "no width.json", ""},
		{"number", svg, `{"name":"n","type":"t","content":1,"width":1,"height":1}`, "number.json", ""},
		{"long envelope", svg, viewerData(strings.Repeat("x", 2100), svg, "abc"), "long envelope.json", ""},
	} {
		files := unzip(t, writeBundle(t, "F", symbols.NewSymbol{Name: c.name, Type: c.mimeType, Data: c.data}))
		if c.content == "" {
			c.content = c.data
		}
		if len(files) != 2 || files[0].name != c.entry || files[0].content != c.content || files[1].name != "manifest.json" {
			t.Errorf("%q with data %.100q: got %.300s, want %q with %.100q", c.name, c.data, fmt.Sprint(files), c.entry, c.content)
		}
	}
}

func TestWrite_Manifest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	files := unzip(t, writeBundle(t, `P&ID "1" <a>`,
		symbols.NewSymbol{Name: "a", Type: "image/svg+xml", Data: viewerData("a", "image/svg+xml", "abc")},
		symbols.NewSymbol{Name: "A", Type: "text/plain", Data: "abc"},
		symbols.NewSymbol{Name: "a", Type: "text/plain", Data: "abc"},
	))
	is.Equal(files[len(files)-1].content, `{"format":"canvasback-symbols","version":1,"folder":"P&ID \"1\" <a>","symbols":[
{"file":"a.svg","name":"a","type":"image/svg+xml","size":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",`+
		`"before":"{\"name\":\"a\",\"type\":\"image/svg+xml\",\"content\":\"","after":"\",\"width\":96,\"height\":96}"},
{"file":"A.txt","name":"A","type":"text/plain","size":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
{"file":"a-1.txt","name":"a","type":"text/plain","size":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
]}
`)
	is.True(json.Valid([]byte(files[len(files)-1].content)))
	is.Equal(unzip(t, writeBundle(t, "empty"))[0].content, "{\"format\":\"canvasback-symbols\",\"version\":1,\"folder\":\"empty\",\"symbols\":[\n]}\n")
}

// mixedSymbols returns symbols of many types and sizes.
func mixedSymbols(t testing.TB) []symbols.NewSymbol {
	random := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(random)
	list := []symbols.NewSymbol{
		{Name: "drawing", Type: "image/svg+xml", Data: viewerData("drawing", "image/svg+xml", drawing)},
		{Name: "picture", Type: "image/png", Data: viewerData("picture", "image/png", pngOf(t, 20, 10))},
		{Name: "noise", Type: "application/x-noise", Data: viewerData("noise", "application/x-noise", string(random))},
		{Name: "zeros", Type: "application/x-zeros", Data: viewerData("zeros", "application/x-zeros", string(make([]byte, 1<<20)))},
		{Name: "text", Type: "text/plain", Data: fmt.Sprint(random)},
		{Name: "short", Type: "text/plain", Data: "x"},
		{Name: "looks like.zip", Type: "text/plain", Data: "PK\x07\x08PK\x01\x02PK\x05\x06"},
		{Name: "résumé 图纸 🦆", Type: "text/plain", Data: "unicode 🦆"},
		{Name: strings.Repeat("🦆", 255), Type: "text/plain", Data: "long"},
	}
	for range 3 {
		list = append(list, symbols.NewSymbol{Name: "again", Type: "image/svg+xml", Data: viewerData("again", "image/svg+xml", drawing)})
	}
	return list
}

func TestWrite_CanBeReadByOtherPrograms(t *testing.T) {
	t.Parallel()
	archive := writeBundle(t, "Mixed", mixedSymbols(t)...)
	var names []string
	for _, f := range unzip(t, archive) {
		names = append(names, f.name)
	}
	ziptest.Read(t, archive, len(names), names)
}

func TestWrite_LocalHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := writeBundle(t, "Mixed", mixedSymbols(t)...)
	z := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
	for _, entry := range z.File {
		t.Log(entry.Name, entry.Method)
		offset := must(entry.DataOffset())(t)
		local := archive[offset-int64(len(entry.Name))-30:]
		if entry.Flags&8 != 0 || binary.LittleEndian.Uint16(local[6:]) != 1<<11 ||
			binary.LittleEndian.Uint32(local[14:]) != entry.CRC32 ||
			binary.LittleEndian.Uint32(local[18:]) != uint32(entry.CompressedSize64) ||
			binary.LittleEndian.Uint32(local[22:]) != uint32(entry.UncompressedSize64) {
			t.Errorf("%s: local header is % x", entry.Name, local[:30])
		}
		want := zip.Deflate
		switch entry.Name {
		case "noise", "short.txt", "looks like.zip.txt", "résumé 图纸 🦆.txt", "picture.png":
			want = zip.Store // does not compress
		case "zeros":
			want = zip.Store // compresses like a bomb
		}
		if strings.HasPrefix(entry.Name, "🦆") {
			want = zip.Store
		}
		is.Equal(entry.Method, want)
		is.Equal(entry.Modified.Year(), 1980)
	}
	is.True(bytes.Equal(archive, writeBundle(t, "Mixed", mixedSymbols(t)...)))
}

// failingWriter fails after this number of bytes.
type failingWriter int

func (w *failingWriter) Write(p []byte) (int, error) {
	if *w -= failingWriter(len(p)); *w < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWrite_ReturnsErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	errPages := errors.New("no connection")
	list := mixedSymbols(t)[:3]
	pages := pagesOf(list, 1)
	for after := range int64(3) {
		err := bundle.Write(io.Discard, "F", func(id int64) (symbols.Page, error) {
			if id >= after {
				return symbols.Page{}, errPages
			}
			return pages(id)
		})
		is.Equal(err, errPages)
	}
	complete := len(writeBundle(t, "F", list...))
	for size := 0; size < complete; size += 1 + complete/10 {
		w := failingWriter(size)
		is.True(errors.Is(bundle.Write(&w, "F", pages), io.ErrClosedPipe))
	}
	broken := []symbols.NewSymbol{{Name: "A", Type: "text/plain", Data: "x", Meta: "{"}}
	err := bundle.Write(io.Discard, "F", pagesOf(broken, 1))
	is.Equal(err.Error(), "bundle: the meta of symbol 1 is not JSON")
}

// TestWrite_MemoryDoesNotGrow is not parallel because it measures the heap.
func TestWrite_MemoryDoesNotGrow(t *testing.T) {
	is := is.New(t)
	const size = 4 << 10
	noise := make([]byte, 3*size/4)
	source := rand.NewChaCha8([32]byte{2})
	growth := make(map[int]int64)
	for _, count := range []int{500, 5000} {
		pages := func(after int64) (symbols.Page, error) {
			page := symbols.Page{More: after+50 < int64(count)}
			for id := after + 1; id <= after+50; id++ {
				source.Read(noise)
				name := fmt.Sprint("symbol ", id)
				page.Symbols = append(page.Symbols, symbols.Symbol{ID: id, Name: name, Type: "image/png", Data: viewerData(name, "image/png", string(noise))})
			}
			return page, nil
		}
		meter := ziptest.NewHeapMeter()
		is.NoErr(bundle.Write(meter, "F", pages))
		growth[count] = meter.Growth()
		t.Logf("%d symbols of %d bytes used %d KiB", count, size, growth[count]>>10)
	}
	if more := growth[5000] - growth[500]; more > 4500*700 {
		t.Errorf("4500 more symbols used %d KiB more", more>>10)
	}
}

// Pages that ignore their argument never end.
func TestWrite_RejectsRepeatedPages(t *testing.T) {
	is := is.New(t)
	first := pagesOf([]symbols.NewSymbol{{Name: "a", Type: "image/png", Data: "a"}, {Name: "b", Type: "image/png", Data: "b"}}, 1)
	var archive bytes.Buffer
	err := bundle.Write(&archive, "F", func(int64) (symbols.Page, error) {
		if archive.Len() > 10_000 {
			return symbols.Page{}, io.ErrShortWrite
		}
		return first(0)
	})
	is.True(err != nil && err != io.ErrShortWrite)
}
