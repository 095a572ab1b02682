package bundle_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// deflatedZip returns a zip of one file, which fill writes.
func deflatedZip(t testing.TB, name string, fill func(io.Writer)) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w := must(z.Create(name))(t)
	fill(w)
	is.NoErr(z.Close())
	return out.Bytes()
}

// blankSVG returns a function that writes an SVG of this size without content.
func blankSVG(mib int) func(io.Writer) {
	return func(w io.Writer) {
		io.WriteString(w, "<svg>")
		space := bytes.Repeat([]byte(" "), 1<<20)
		for range mib {
			w.Write(space)
		}
		io.WriteString(w, "</svg>")
	}
}

// allocated returns how many MiB f allocates. Its callers must not run in
// parallel with other tests.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int((after.TotalAlloc - before.TotalAlloc) >> 20)
}

func allocatedByRead(t *testing.T, data []byte, options *bundle.Options) (mib int, err error) {
	mib = allocated(func() { _, err = bundle.Read(t.Context(), data, options) })
	return mib, err
}

// wantTooLarge checks that Read rejects an archive as too large and allocates at
// most maxMiB.
func wantTooLarge(t *testing.T, archive []byte, limits bundle.Limits, maxMiB int) {
	t.Helper()
	took, err := allocatedByRead(t, archive, &bundle.Options{Limits: limits})
	if took > maxMiB {
		t.Errorf("rejecting an archive of %d KiB took %d MiB", len(archive)>>10, took)
	}
	is.New(t).True(errors.Is(err, bundle.ErrTooLarge))
}

func TestRead_BombOfOneFile(t *testing.T) {
	bomb := deflatedZip(t, "a.svg", blankSVG(40))
	wantTooLarge(t, bomb, bundle.Limits{}, 50) // 40 KiB may expand to 8 MiB, in a slice that grows
	wantTooLarge(t, bomb, bundle.Limits{Ratio: 10}, 25)
	wantTooLarge(t, bomb, bundle.Limits{Symbol: 1 << 20}, 10)
	wantTooLarge(t, bomb, bundle.Limits{Total: 1 << 20}, 10)
	wantTooLarge(t, deflatedZip(t, "manifest.json", blankSVG(40)), bundle.Limits{}, 50)
	wantTooLarge(t, deflatedZip(t, "manifest.json", blankSVG(2)), bundle.Limits{Entries: 10}, 10)
}

func TestRead_LimitsApplyToData(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := deflatedZip(t, "a.svg", blankSVG(3)) // 4 MiB of data
	must(bundle.Read(t.Context(), archive, nil))(t) // below ratioFreeBytes
	_, err := bundle.Read(t.Context(), archive, &bundle.Options{Limits: bundle.Limits{Symbol: 4 << 20}})
	is.True(errors.Is(err, bundle.ErrTooLarge))
	is.Equal(err.Error(), "a.svg is too large")
	_, err = bundle.Read(t.Context(), archive, &bundle.Options{Limits: bundle.Limits{Total: 4 << 20}})
	is.Equal(err.Error(), "too large: the symbols have too much data")

	twice := zipOf(t, file{name: "a.svg", content: drawing}, file{name: "b.svg", content: drawing})
	one := int64(len(viewerData("a", "image/svg+xml", drawing)))
	_, err = bundle.Read(t.Context(), twice, &bundle.Options{Limits: bundle.Limits{Entries: 2, Symbol: one, Total: 2 * one}})
	is.NoErr(err)
	_, err = bundle.Read(t.Context(), writeBundle(t, "F", mixedSymbols(t)...), &bundle.Options{Limits: bundle.Limits{Entries: len(mixedSymbols(t))}})
	is.NoErr(err)                                  // the manifest does not count
	for _, symbol := range []int64{100, one - 1} { // of the file, of the data
		skipped, err := bundle.Read(t.Context(), twice, &bundle.Options{Skip: true, Limits: bundle.Limits{Symbol: symbol}})
		is.NoErr(err)
		is.Equal(skipped.Skipped, []bundle.FileNote{{File: "a.svg", Reason: "too large"}, {File: "b.svg", Reason: "too large"}})
	}
	for _, limits := range []bundle.Limits{{Entries: 1}, {Symbol: one - 1}, {Total: 2*one - 1}} {
		is.True(errors.Is(readError(t, twice, &bundle.Options{Limits: limits}), bundle.ErrTooLarge))
	}
	_, err = bundle.Read(t.Context(), twice, &bundle.Options{Limits: bundle.Limits{Entries: math.MaxInt, Symbol: 1 << 62, Total: 1 << 62, Ratio: 1 << 62}})
	is.NoErr(err)
}

// TestRead_ManySmallFiles: what surrounds the pictures in the data is larger than they are.
func TestRead_ManySmallFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	files := make([]file, 20_000)
	for i := range files {
		files[i] = file{name: fmt.Sprintf("%0240d.svg", i), content: "<svg/>"}
	}
	contents := must(bundle.Read(t.Context(), zipOf(t, files...), nil))(t)
	is.Equal(len(contents.Files), len(files))
}

func TestRead_BombOfManyFiles(t *testing.T) {
	var content, packed bytes.Buffer
	blankSVG(1)(&content)
	deflate(t, &packed, content.Bytes())
	files := make([]file, 100)
	for i := range files {
		files[i] = file{name: fmt.Sprint(i, ".svg"), content: packed.String(), alter: func(h *zip.FileHeader) {
			h.Method, h.CRC32, h.UncompressedSize64 = zip.Deflate, crcOf(content.String()), uint64(content.Len())
		}}
	}
	bomb := zipOf(t, files...)
	wantTooLarge(t, bomb, bundle.Limits{}, 400) // may expand to 20 MiB, which are copied several times
	wantTooLarge(t, bomb, bundle.Limits{Ratio: 20}, 50)
}

func deflate(t testing.TB, out io.Writer, content []byte) {
	t.Helper()
	is := is.New(t)
	w := must(flate.NewWriter(out, flate.BestCompression))(t)
	w.Write(content)
	is.NoErr(w.Close())
}

// directoryOnlyZip returns a zip that has only a central directory. It declares
// another number of entries than it has.
func directoryOnlyZip(entries, declared int) []byte {
	header := make([]byte, 46)
	copy(header, "PK\x01\x02")
	archive := bytes.Repeat(header, entries)
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], uint16(declared))
	binary.LittleEndian.PutUint16(end[10:], uint16(declared))
	binary.LittleEndian.PutUint32(end[12:], uint32(len(archive)))
	return append(archive, end...)
}

func TestRead_HugeDirectory(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	limits := bundle.Limits{Entries: 10_000}
	wantTooLarge(t, zipOf(t, make([]file, 10_001)...), limits, 20)
	const count = 64 << 20 / 46
	wantTooLarge(t, directoryOnlyZip(count, count), limits, 60)
	wantTooLarge(t, directoryOnlyZip(count, 1), limits, 60)
	wantTooLarge(t, directoryOnlyZip(20_000, 20_000), limits, 60)
	for _, c := range [][2]int{{20_000, 1}, {1, 0}, {1, 2}, {1, 0xfffe}} {
		if _, err := bundle.Read(t.Context(), directoryOnlyZip(c[0], c[1]), &bundle.Options{Limits: limits}); !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("%d entries, %d declared: %v", c[0], c[1], err)
		}
	}
}

// overlappingZip returns a zip whose entries share the same bytes.
func overlappingZip(t *testing.T, name string, entries int, packed []byte, crc uint32, size int) []byte {
	t.Helper()
	archive := zipOf(t, file{name: fmt.Sprintf(name, 0), content: string(packed), alter: func(h *zip.FileHeader) {
		h.Method, h.CRC32, h.UncompressedSize64 = zip.Deflate, crc, uint64(size)
	}})
	at := bytes.Index(archive, []byte("PK\x01\x02"))
	end := bytes.LastIndex(archive, []byte("PK\x05\x06"))
	entry, tail := archive[at:end], bytes.Clone(archive[end:])
	out := bytes.Clone(archive[:at])
	for i := range entries {
		out = append(out, entry[:46]...)
		out = append(out, fmt.Sprintf(name, i)...)
	}
	binary.LittleEndian.PutUint16(tail[8:], uint16(entries))
	binary.LittleEndian.PutUint16(tail[10:], uint16(entries))
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(out)-at))
	return append(out, tail...)
}

func TestRead_OverlappingEntries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var content, packed bytes.Buffer
	blankSVG(4)(&content)
	deflate(t, &packed, content.Bytes())
	crc := crcOf(content.String())

	// Empty blocks decompress to nothing but take time to read.
	empty := append(bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 4<<20/5), 1, 0, 0, 0xff, 0xff)
	for name, archive := range map[string][]byte{
		"large":  overlappingZip(t, "%05d.svg", 5000, packed.Bytes(), crc, content.Len()),
		"empty":  overlappingZip(t, "%05d.svg", 9000, empty, 0, 0),
		"listed": overlappingZip(t, "manifest.json%05d", 9000, empty, 0, 0),
	} {
		_, err := bundle.Read(t.Context(), archive, nil)
		if !errors.Is(err, bundle.ErrInvalid) || err.Error() != "the archive is not a zip: its entries are larger than the archive" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A single entry is read completely.
	_, err := bundle.Read(t.Context(), overlappingZip(t, "%05d.svg", 1, packed.Bytes(), crc, content.Len()), &bundle.Options{Limits: bundle.Limits{Ratio: 2000}})
	is.NoErr(err)
	_, err = bundle.Read(t.Context(), overlappingZip(t, "%05d.svg", 1, empty, 0, 0), nil)
	is.Equal(rejections(err), "00000.svg: broken SVG: it is not well-formed XML")
}

func TestRead_WrongSizes(t *testing.T) {
	bomb := deflatedZip(t, "a.svg", blankSVG(40))
	at := bytes.Index(bomb, []byte("PK\x01\x02"))
	for _, size := range []uint32{0, 1, 1 << 20, 1<<32 - 1} {
		altered := bytes.Clone(bomb)
		binary.LittleEndian.PutUint32(altered[at+24:], size)
		if took, err := allocatedByRead(t, altered, nil); took > 50 || err == nil {
			t.Errorf("size %d: %v, took %d MiB", size, err, took)
		}
	}
	for _, packed := range []uint32{1 << 30, 1<<32 - 1} {
		altered := bytes.Clone(bomb)
		binary.LittleEndian.PutUint32(altered[at+20:], packed)
		if _, err := bundle.Read(t.Context(), altered, nil); !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("packed size %d: %v", packed, err)
		}
	}
}

// TestRead_Zip64 has zip64 fields in a small archive.
func TestRead_Zip64(t *testing.T) {
	t.Parallel()
	const all = 1<<32 - 1
	archive := func(size, packed, offset uint64) []byte {
		extra := binary.LittleEndian.AppendUint16(nil, 1)
		extra = binary.LittleEndian.AppendUint16(extra, 24)
		extra = binary.LittleEndian.AppendUint64(extra, size)
		extra = binary.LittleEndian.AppendUint64(extra, packed)
		extra = binary.LittleEndian.AppendUint64(extra, offset)
		out := zipOf(t, file{name: "a.svg", content: drawing, alter: func(h *zip.FileHeader) { h.Extra = extra }})
		at := bytes.Index(out, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(out[at+20:], all)
		binary.LittleEndian.PutUint32(out[at+24:], all)
		binary.LittleEndian.PutUint32(out[at+42:], all)
		return out
	}
	const size = uint64(len(drawing))
	if _, err := bundle.Read(t.Context(), archive(size, size, 0), nil); err != nil {
		t.Error(rejections(err))
	}
	for _, c := range [][3]uint64{
		{size, size, 1}, {size, size, 1 << 63}, {size, size, 1<<64 - 1}, {size, size, 1<<63 - 1},
		{size, 1 << 63, 0}, {size, 1<<64 - 1, 0}, {size, math.MaxUint64 - size + 1, 0}, {size, size + 200, 0},
		{1 << 63, size, 0}, {1<<64 - 1, size, 0}, {0, size, 0},
	} {
		if _, err := bundle.Read(t.Context(), archive(c[0], c[1], c[2]), nil); !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("%x: %v", c, err)
		}
	}
}

func TestRead_ManifestOfEmptyEntries(t *testing.T) {
	elements := strings.Repeat("{},", 1<<20) + "{}"
	archive := deflatedZip(t, "manifest.json", func(w io.Writer) {
		io.WriteString(w, `{"format":"canvasback-symbols","version":1,"symbols":[`+elements+`]}`)
	})
	wantTooLarge(t, archive, bundle.Limits{}, 50)
}

// TestRead_DoesNotExpandEntities reads a "billion laughs" document.
func TestRead_DoesNotExpandEntities(t *testing.T) {
	var svg strings.Builder
	svg.WriteString(`<!DOCTYPE svg [ <!ENTITY e0 "` + strings.Repeat("x", 10_000) + `">`)
	for i := range 20 {
		fmt.Fprintf(&svg, `<!ENTITY e%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&e%d;", i), 10))
	}
	svg.WriteString("]><svg a='&e20;'>" + strings.Repeat("&e20;&e0;", 10_000) + "</svg>")
	archive := zipOf(t, file{name: "a.svg", content: svg.String()})
	if took, err := allocatedByRead(t, archive, nil); took > 20 || err != nil {
		t.Errorf("took %d MiB: %s", took, rejections(err))
	}
}

// TestWrite_IsNotABomb checks that Read accepts a bundle at any ratio from 100.
func TestWrite_IsNotABomb(t *testing.T) {
	t.Parallel()
	var list []symbols.NewSymbol
	for range 8 {
		list = append(list, symbols.NewSymbol{Name: "blank", Type: "text/plain", Data: strings.Repeat(" ", 1<<20)})
	}
	contents, err := bundle.Read(t.Context(), writeBundle(t, "F", list...), &bundle.Options{Limits: bundle.Limits{Ratio: 100}})
	if err != nil || len(contents.Files) != 8 {
		t.Error(err)
	}
}

// TestRead_BombsInLibraries: what is small in a library is large in memory.
func TestRead_BombsInLibraries(t *testing.T) {
	is := is.New(t)
	var diagram bytes.Buffer
	deflate(t, &diagram, make([]byte, 100<<20))
	text := `<mxlibrary>[{"xml":"` + base64.StdEncoding.EncodeToString(diagram.Bytes()) + `"}]</mxlibrary>`
	wantTooLarge(t, []byte(text+strings.Repeat(" ", 1<<20)), bundle.Limits{}, 60)

	icons := new(strings.Builder)
	for i := range 400_000 {
		fmt.Fprintf(icons, `"%d":{},`, i)
	}
	wantTooLarge(t, []byte(`{"prefix":"a","icons":{`+icons.String()+`"a":{}}}`), bundle.Limits{}, 60)

	for _, text := range []string{
		`<mxlibrary` + strings.Repeat(" a", 1<<20) + `>[]</mxlibrary>`,
		`<svg xmlns="http://www.w3.org/2000/svg"` + strings.Repeat(` a=""`, 1<<19) + `/>`,
	} {
		took, err := allocatedByRead(t, []byte(text), nil)
		is.True(err != nil)
		is.True(took < 20)
	}
}

// TestRead_BombsOfRepetition has archives that are small because their symbols share what each of
// them has in memory. With many tags a symbol took time that grew with their square.
func TestRead_BombsOfRepetition(t *testing.T) {
	is := is.New(t)
	icons := func(n int, author string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `,"a%d":{"body":"<g/>"}`, i)
		}
		return fmt.Sprintf(`{"prefix":"x","info":{"author":{"name":%q}},"icons":{%s}}`, author, text.String()[1:])
	}
	folders := func(n int, name func(i int) string) string {
		var text strings.Builder
		for i := range n {
			text.WriteString(name(i) + "/")
		}
		return text.String()
	}
	long := folders(32, func(i int) string { return strings.Repeat(string(rune(0x1f600+i)), 64) })
	wantTooLarge(t, zipOf(t, file{name: long + "set.json", content: icons(15_000, "x")}), bundle.Limits{}, 100)
	numbers := folders(12_000, func(i int) string { return fmt.Sprintf("%x", i) })
	_, err := bundle.Read(t.Context(), zipOf(t, file{name: numbers + "set.json", content: icons(2_000, "x")}), nil)
	is.True(errors.Is(err, bundle.ErrInvalid))

	contents := must(bundle.Read(t.Context(), []byte(icons(2, strings.Repeat("A", 1<<20))), nil))(t)
	is.True(len(contents.Files[1].Symbol.Meta) < 1000)

	manifest := `{"format":"canvasback-symbols","version":1,"folder":"f","symbols":[` + strings.Repeat(`{"file":"x"},`, 2_000) + `{}]}`
	for _, archive := range [][]byte{
		zipOf(t, file{name: strings.Repeat("x", 65_000) + "/manifest.json", content: manifest}),
		[]byte(`<mxlibrary title="` + strings.Repeat("😀", 239) + `">[` + strings.Repeat("{},", 49_000) + `{}]</mxlibrary>`),
	} {
		is.True(errors.Is(readError(t, archive, &bundle.Options{Skip: true}), bundle.ErrTooLarge))
	}

	tags := []byte(`<mxlibrary>[{"title":"x","data":"data:,&lt;svg/&gt;","tags":"` + strings.Repeat("a ", 5<<20) + `"}]</mxlibrary>`)
	took, err := allocatedByRead(t, tags, nil)
	is.True(took < 150)
	is.True(errors.Is(err, bundle.ErrInvalid))
}

func TestRead_EntriesOfLibraries(t *testing.T) {
	is := is.New(t)
	for _, text := range []string{
		`{"prefix":"a","icons":{"a":{"body":"x","hidden":true},"b":{"body":"x","hidden":true},"c":{"body":"x","hidden":true}}}`,
		`{"prefix":"a","icons":{"a":{},"b":{}},"aliases":{"c":{}}}`,
		`<mxlibrary>[{},{},{}]</mxlibrary>`,
	} {
		for limit, tooLarge := range map[int]bool{2: true, 3: false} {
			_, err := bundle.Read(t.Context(), []byte(text), &bundle.Options{Skip: true, Limits: bundle.Limits{Entries: limit}})
			is.Equal(errors.Is(err, bundle.ErrTooLarge), tooLarge)
		}
	}
}

func TestMemorySize_CoversContents(t *testing.T) {
	is := is.New(t)
	svg := func(size int) string {
		return `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--` + strings.Repeat(" ", size) + `--></svg>`
	}
	archive := zipOf(t, file{name: "a.svg", content: svg(30_000)}, file{name: "b.svg", content: svg(60_000)})
	memory := must(bundle.MemorySize(archive, nil))(t)
	contents := must(bundle.Read(t.Context(), archive, nil))(t)
	size := 0
	for _, symbol := range contents.Symbols() {
		size += len(symbol.Data)
	}
	is.True(memory >= int64(size)+60_000)
	is.True(memory < 400_000)

	// The limits bound what Read decompresses, whatever the headers declare.
	bounded := must(bundle.MemorySize(archive, &bundle.Options{Limits: bundle.Limits{Total: 30_000}}))(t)
	is.True(bounded <= 3*30_000/3*4+2<<10) // and 1 KiB for each entry
	library := must(bundle.MemorySize(make([]byte, 1000), nil))(t)
	is.Equal(library, int64(4000))
}

func TestRead_DryRunHoldsOneFileAtATime(t *testing.T) {
	is := is.New(t)
	archive := zipOf(t, file{name: "a.svg", content: drawing}, file{name: "b.svg", content: drawing}, file{name: "c.svg", content: drawing})
	read := func(options bundle.Options) (*bundle.Contents, int64) {
		memory := must(bundle.MemorySize(archive, &options))(t)
		contents := must(bundle.Read(t.Context(), archive, &options))(t)
		return contents, memory
	}
	complete, all := read(bundle.Options{})
	dry, one := read(bundle.Options{DryRun: true})
	is.True(one < all)
	is.True(one >= int64(2*len(drawing)))
	for i, file := range dry.Files {
		is.Equal(file.Symbol.Data, "")
		file.Symbol.Data = complete.Files[i].Symbol.Data
		is.Equal(file, complete.Files[i])
	}
	_, err := bundle.Read(t.Context(), archive, &bundle.Options{DryRun: true, Limits: bundle.Limits{Total: int64(2 * len(complete.Files[0].Symbol.Data))}})
	is.True(errors.Is(err, bundle.ErrTooLarge))
}

// TestRead_AliasesCountAsDecompressed has many aliases of one large icon, which cannot be
// imported and so counts as no data.
func TestRead_AliasesCountAsDecompressed(t *testing.T) {
	is := is.New(t)
	var text strings.Builder
	fmt.Fprintf(&text, `{"prefix":"a","icons":{"a":{"body":%q}},"aliases":{`, strings.Repeat("<g/>", 1<<15)+"<broken")
	for i := range 200 {
		fmt.Fprintf(&text, `"%d":{"parent":"a"},`, i)
	}
	text.WriteString(`"z":{"parent":"a"}}}`)
	_, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.json", content: text.String()}),
		&bundle.Options{Skip: true, Limits: bundle.Limits{Total: 4 << 20}})
	is.True(errors.Is(err, bundle.ErrTooLarge))
}

// TestRead_BrokenDiagramsCountAsDecompressed has diagrams that end too early.
func TestRead_BrokenDiagramsCountAsDecompressed(t *testing.T) {
	is := is.New(t)
	var deflated bytes.Buffer
	w := must(flate.NewWriter(&deflated, flate.BestCompression))(t)
	must(w.Write(make([]byte, 3<<20)))(t)
	is.NoErr(w.Flush()) // without the last block
	diagram := `{"xml":"` + base64.StdEncoding.EncodeToString(deflated.Bytes()) + `"},`
	library := "<mxlibrary>[" + strings.Repeat(diagram, 20) + "{}]</mxlibrary>"
	_, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.xml", content: library}), &bundle.Options{Skip: true})
	is.True(errors.Is(err, bundle.ErrTooLarge))
}

// TestRead_SplitsPathOnce has a library whose path is long, and must not be split for each of its
// symbols.
func TestRead_SplitsPathOnce(t *testing.T) {
	const count = 2000
	folders := strings.Repeat("a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z/0/1/2/3/4/5/", 500)
	library := strings.Repeat(`,{"data":"data:image/svg+xml,%3Csvg/%3E"}`, count)[1:]
	archive := deflatedZip(t, folders+"x.xml", func(w io.Writer) { fmt.Fprintf(w, "<mxlibrary>[%s]</mxlibrary>", library) })
	took := allocated(func() {
		contents, err := bundle.Read(t.Context(), archive, nil)
		is := is.New(t)
		is.NoErr(err)
		is.Equal(len(contents.Files), count)
	})
	is.New(t).True(took < 100)
}

// TestRead_ManifestOfAnotherProgram skips it and imports the rest.
func TestRead_ManifestOfAnotherProgram(t *testing.T) {
	is := is.New(t)
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	data := zipOf(t, file{name: "b.svg", content: svg}, file{name: "app/icon.svg", content: svg},
		file{name: "app/manifest.json", content: `{"name":"My web app","icons":[]}`})
	contents := must(bundle.Read(t.Context(), data, &bundle.Options{Skip: true}))(t)
	is.Equal(len(contents.Files), 2)
	is.Equal(len(contents.Skipped), 1)
	is.Equal(contents.Skipped[0].File, "app/manifest.json")
	is.True(errors.Is(readError(t, data, nil), bundle.ErrInvalid))
}

// TestRead_ManifestWithManyTags: an empty tag takes three bytes of text and sixteen of memory.
func TestRead_ManifestWithManyTags(t *testing.T) {
	const size = 12 << 20
	tags := strings.Repeat(`"",`, size/3) + `""`
	archive := zipOf(t, file{name: "manifest.json", content: `{"format":"canvasback-symbols","version":1,"symbols":[{"tags":[` + tags + `]}]}`})
	took, err := allocatedByRead(t, archive, nil)
	is.New(t).True(errors.Is(err, bundle.ErrInvalid))
	if took > 8*size>>20 {
		t.Errorf("a manifest of %d MiB took %d MiB", size>>20, took)
	}
}
