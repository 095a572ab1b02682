package picture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"math"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"
	"golang.org/x/text/encoding/unicode"

	"example.com/canvasback/symbols/picture"
)

const (
	svg  = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	gif  = "GIF89a\x01\x00\x01\x00\x00\x00\x00;"
	jpeg = "\xff\xd8\xff\xe0rest"
	webp = "RIFF\x10\x00\x00\x00WEBPVP8 rest"
	avif = "\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00avifrest"
	bmp  = "BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"
	ico  = "\x00\x00\x01\x00\x01\x00\x01\x01\x00\x00\x01\x00\x20\x00\x02\x00\x00\x00\x16\x00\x00\x00xx"
)

func pngImage() string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		panic(err)
	}
	return b.String()
}

func b64(content string) string { return base64.StdEncoding.EncodeToString([]byte(content)) }

func TestFind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pngImage := pngImage()
	for _, c := range []struct{ data, mimeType, content string }{
		{svg, "image/svg+xml", svg},
		{"\ufeff<?xml version='1.0'?><!-- a --><!DOCTYPE svg>\n" + svg, "image/svg+xml", ""},
		{strings.Repeat(" \n", 70) + svg, "image/svg+xml", ""},
		{" \n<?xml version='1.0'?>" + svg, "image/svg+xml", "<?xml version='1.0'?>" + svg},
		{"\f" + svg, "", ""},
		{" " + svg, "image/svg+xml", " " + svg},
		{`<?xml-stylesheet href="a.css"?>` + svg, "image/svg+xml", ""},
		{`<svg><?xml version="1.0"?></svg>`, "", ""},
		{"<!ELEMENT svg ANY>" + svg, "", ""},
		{`<svg:svg xmlns:svg="http://www.w3.org/2000/svg"/>`, "image/svg+xml", ""},
		{`<svg xmlns="http://www.w3.org/1999/xhtml"/>`, "", ""},
		{`<html><svg/></html>`, "", ""},
		{`<svg`, "", ""},
		{`<svg onload=alert(1)>`, "", ""},
		{"GIF89a text", "", ""}, // only base64 and data URLs have bytes
		{"", "", ""},
		{"text", "", ""},

		{"data:image/png;base64," + b64(pngImage), "image/png", pngImage},
		{"DATA:IMAGE/PNG;BASE64," + b64(pngImage), "image/png", pngImage},
		{" data:image/png ; charset=x;  base64," + b64(pngImage) + "\n", "image/png", pngImage},
		{"data:image/png;base64," + strings.TrimRight(b64(pngImage), "="), "image/png", pngImage},
		{"data:image/png;base64," + b64(pngImage)[:20] + "%0A \n" + b64(pngImage)[20:], "image/png", pngImage},
		{"data:image/png;base64," + url.QueryEscape(b64(pngImage)), "image/png", pngImage},
		{"data:image/png;base64," + b64(pngImage) + "#fragment", "image/png", pngImage},
		{"data:;base64," + b64(pngImage), "image/png", pngImage},
		{"data:;charset=x;base64," + b64(gif), "image/gif", gif},
		{"data:;base64," + b64("RIFF\x10\x00\x00\x00AVI LISTrest"), "", ""},
		{"data:image/png;base64 ," + b64(pngImage), "image/png", pngImage},
		{"data:image/png;base64,!" + b64(pngImage), "", ""},
		{"data:image/png;base64," + b64(pngImage) + "!", "", ""},
		{"data:image/gif;base64," + b64(gif) + "=", "", ""},
		{"data:image/png," + b64(pngImage), "", ""},
		{"data:image/png;base64" + b64(pngImage), "", ""},
		{"data:image/jpeg;base64," + b64(pngImage), "", ""},
		{"data:text/html;base64," + b64(svg), "", ""},
		{"data:image;base64," + b64(pngImage), "", ""},
		{"data:application/octet-stream;base64," + b64(pngImage), "", ""},
		{"data:image/svg+xml," + svg, "image/svg+xml", svg},
		{"data:image/svg+xml;utf8," + svg, "image/svg+xml", svg},
		{"data:image/svg+xml;charset=utf-8;charset=utf-8," + url.PathEscape(svg), "image/svg+xml", svg},
		{"data:image/svg+xml,<svg\r\n\t/>\x01 ", "image/svg+xml", "<svg/>"},
		{"data:image/svg+xml,<svg fill='100%'/>", "image/svg+xml", "<svg fill='100%'/>"},
		{"data:image/svg+xml,<svg fill='#fff'/>", "", ""}, // a fragment
		{"data:image/svg+xml,<svg fill='%23fff'/>", "image/svg+xml", "<svg fill='#fff'/>"},
		{"data:image/svg+xml,%3Csvg fill='a+b'/%3E", "image/svg+xml", "<svg fill='a+b'/>"},

		{`{"name":"n","type":"image/png","content":"` + b64(pngImage) + `","width":1,"height":2,"extra":[{}]}`, "image/png", pngImage},
		{` {"content":"` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"name":"half of an emoji \ud83d","content":"` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"type":"","content":"` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"type":"Image/SVG+xml; charset=utf-8","content":"` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"type":"image/png","content":"` + b64(svg) + `"}`, "", ""},
		{`{"type":"image/svg+xml","content":"data:image/svg+xml;base64,` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"content":" data:image/svg+xml;base64,` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"content":"` + b64(pngImage) + `!"}`, "", ""},
		{`{"type":"image/png","content":"data:image/svg+xml;base64,` + b64(svg) + `"}`, "", ""},
		{`{"type":"image/svg+xml","content":"data:image/png;base64,` + b64(svg) + `"}`, "", ""},
		{`{"type":"image/svg+xml","content":"data:;base64,` + b64(svg) + `"}`, "image/svg+xml", svg},
		{`{"type":7,"content":"` + b64(svg) + `"}`, "", ""},
		{`{"type":"image/svg+xml"}`, "", ""},
		{`{"content":null}`, "", ""},
		{`{"content":"` + b64(svg) + `"`, "", ""},
		{`{"content":""}`, "", ""},
	} {
		got, ok := picture.Find(c.data)
		t.Logf("%.200q", c.data)
		is.Equal(ok, c.mimeType != "")
		is.True(!ok || got.Type == c.mimeType && (c.content == "" || string(got.Content) == c.content))
	}
}

// Chromium shows no image of an SVG in another encoding than UTF-8 and UTF-16.
func TestFind_ConvertsToUTF8(t *testing.T) {
	t.Parallel()
	for declared, text := range map[string]string{
		"ISO-8859-1": "\xe4\xa7", "latin1": "\xe4\xa7", "iso_8859-1": "\xe4\xa7", "windows-1252": "\xe4\xa7", "CP1252": "\xe4\xa7", "macintosh": "\x8a\xa4",
		"US-ASCII": "\xe4\xa7", "UTF-8": "ä§", "utf-16": "ä§", "iso-8859-5": "ä§", "Shift_JIS": "ä§",
	} {
		for _, quote := range []string{`="%s"`, ` = '%s'`} {
			is := is.New(t)
			document := `<?xml version="1.1" encoding` + quote + `?><svg><title>%s</title></svg>`
			found, ok := picture.Find("data:;base64," + b64(fmt.Sprintf(document, declared, text)))
			t.Log(declared)
			is.True(ok)
			is.Equal(string(found.Content), fmt.Sprintf(document, "UTF-8", "ä§"))
		}
	}
	for label, letter := range map[string]string{"latin2": "Ŕ", "latin5": "À", "iso-8859-11": "ภ", "cp1251": "А"} {
		found, ok := picture.Find("data:;base64," + b64(`<?xml version="1.0" encoding="`+label+`"?><svg id="`+"\xc0\"/>"))
		is.New(t).True(ok && strings.Contains(string(found.Content), letter))
	}
	for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		for _, mark := range []unicode.BOMPolicy{unicode.UseBOM, unicode.IgnoreBOM} {
			encoded, err := unicode.UTF16(order, mark).NewEncoder().String(`<svg id="ä"/>`)
			is.New(t).NoErr(err)
			found, ok := picture.Find("data:;base64," + b64(encoded))
			is.New(t).True(ok && strings.Contains(string(found.Content), `<svg id="ä"/>`))
		}
	}
	found, ok := picture.Find("data:;base64," + b64(`<?xml version="1.0" encoding="ISO-8859-1"?><svg id="`+"\x80\"/>"))
	is.New(t).True(ok && strings.Contains(string(found.Content), "€")) // as in windows-1252
	_, ok = picture.Find("data:;base64," + b64(`<?xml version="1.0" encoding="Shift_JIS"?><svg><title>`+"\x83\x6f</title></svg>"))
	is.New(t).True(!ok)
}

// A declaration is looked for in the first KiB, and 4 MiB become 12 at most.
func TestToUTF8_BoundsWork(t *testing.T) {
	t.Parallel()
	document := func(space, length int) []byte {
		head := `<?xml version="1.0" ` + strings.Repeat(" ", space) + `encoding="latin1"?><svg id="`
		return []byte(head + strings.Repeat("\x80", length-len(head)-len(`"/>`)) + `"/>`)
	}
	for _, c := range []struct {
		space, length int
		converts      bool
	}{{0, 4 << 20, true}, {0, 4<<20 + 1, false}, {900, 2000, true}, {1024, 2000, false}} {
		if utf8.Valid(picture.ToUTF8(document(c.space, c.length))) != c.converts {
			t.Error(c)
		}
	}
}

func TestFind_TypesAgree(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all := map[string]string{
		"image/svg+xml": svg, "image/gif": gif, "image/jpeg": jpeg, "image/webp": webp, "image/avif": avif, "image/bmp": bmp,
		"image/x-icon": ico, "image/png": pngImage(), "image/jpg": jpeg, "image/pjpeg": jpeg, "image/vnd.microsoft.icon": ico, "image/x-ms-bmp": bmp,
	}
	for named := range all {
		for of, content := range all {
			data := fmt.Sprintf("data:%s;base64,%s", named, b64(content))
			t.Log(of, named)
			_, found := picture.Find(data)
			is.Equal(found, all[named] == content)
		}
	}
}

func TestFind_ChecksHeaders(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"GIF87a" + gif[6:]:                                      true,
		"\x00\x00\x00\x10ftypavis\x00\x00\x00\x00":              true,
		"\x00\x00\x00\x10ftypmif1avif":                          false, // a version
		"\x00\x00\x00\x0cftypavif\x00\x00\x00\x00":              false,
		strings.Replace(avif, "\x14", "\x13", 1):                false,
		strings.Replace(avif, "\x14", "\x1c", 1):                false,
		strings.Replace(avif, "ftyp", "free", 1):                false,
		strings.Replace(bmp, "BM", "BA", 1):                     false,
		strings.Replace(bmp, "\x28", "\x29", 1):                 false,
		"\x00\x00\x02\x00" + ico[4:]:                            false, // a cursor
		strings.Replace(ico, "\x01\x00\x01", "\x01\x00\x00", 1): false,
		strings.Replace(ico, "\x02", "\x00", 1):                 false,
		strings.Replace(ico, "\x02", "\x03", 1):                 false,
		strings.Replace(ico, "\x16", "\x15", 1):                 false,
	} {
		if _, found := picture.Find("data:;base64," + b64(content)); found != want {
			t.Errorf("%q is found: %t", content, found)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, data := range []string{
		svg, "data:image/png;base64," + b64(pngImage()), `{"content":"` + b64(ico) + `"}`, "data:image/avif;base64," + b64(avif), "data:,%",
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if got, ok := picture.Find(data); ok {
			is.New(t).True(strings.HasPrefix(got.Type, "image/") && len(got.Content) > 0 && got.Extension[0] == '.')
		}
	})
}

// TestSize_AcceptsManyEqualsSigns: an SVG may have an escaped diagram in an attribute, or a
// script.
func TestSize_AcceptsManyEqualsSigns(t *testing.T) {
	for _, text := range []string{
		`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" content="` + strings.Repeat("&lt;a b=&quot;c&quot;/&gt;", 70_000) + `"/>`,
		`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script><![CDATA[` + strings.Repeat("a=b;", 70_000) + `]]></script></svg>`,
	} {
		_, _, err := picture.Size(picture.SVG, []byte(text))
		is.New(t).NoErr(err)
	}
}

func TestSize_RejectsBroken(t *testing.T) {
	t.Parallel()
	number := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	chunk := func(name, data string) string {
		return number(uint32(len(data))) + name + data + number(crc32.ChecksumIEEE([]byte(name+data)))
	}
	const signature, depth = "\x89PNG\r\n\x1a\n", "\x08\x00\x00\x00\x00"
	png := func(width, height uint32) string {
		return signature + chunk("IHDR", number(width)+number(height)+depth)
	}
	pixels, end := chunk("IDAT", ""), chunk("IEND", "")
	webp := func(size string) string {
		return "RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + size
	}
	small := webp("\x01\x00\x02\x00")
	for _, c := range []struct {
		mimeType, content string
		accepted          bool
	}{
		{"image/webp", small, true},
		{"image/webp", webp("\x00\x00\x02\x00"), false},
		{"image/webp", webp("\x01\x00\x00\x40"), false},
		{"image/webp", strings.Replace(small, "\x16", "\x17", 1), false},
		{"image/webp", strings.Replace(small, "WEBP", "WAVE", 1), false},
		{"image/webp", "RIFF\x08\x00\x00\x00WEBPVP8 ", false},
		{"image/gif", gif, true},
		{"image/gif", "GIF89a\x00\x00\x01\x00" + gif[10:], false},
		{"image/gif", "GIF89a\x01\x00\x00\x00" + gif[10:], false},
		{"image/png", png(math.MaxInt32, math.MaxInt32) + pixels + end, true},
		{"image/png", png(0, 1) + pixels + end, false},
		{"image/png", png(1, 0) + pixels + end, false},
		{"image/png", png(math.MaxInt32+1, 1) + pixels + end, false},
		{"image/png", png(1, math.MaxInt32+1) + pixels + end, false},
		{"image/png", png(1, 1)[8:] + pixels + end, false},
		{"image/png", signature + chunk("IHDR", "") + pixels + end, false},
		{"image/png", signature + chunk("IDAT", number(1)+number(1)+depth) + pixels + end, false},
		{"image/png", png(1, 1) + pixels + chunk("tEXt", ""), false},
	} {
		if _, _, err := picture.Size(c.mimeType, []byte(c.content)); (err == nil) != c.accepted {
			t.Errorf("%q: %v", c.content, err)
		}
	}
}

// find also returns how many bytes Find allocates.
func find(data string) (found bool, allocated uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, found = picture.Find(data)
	runtime.ReadMemStats(&after)
	return found, after.TotalAlloc - before.TotalAlloc
}

// TestFind_HostileXMLTakesLittleMemory has documents of some hundred KiB.
func TestFind_HostileXMLTakesLittleMemory(t *testing.T) {
	var entities strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&entities, `<!ENTITY a%d "b">`, i)
	}
	for prolog, want := range map[string]bool{
		strings.Repeat(`<?xml encoding="iso-8859-1"?>`, 8000):                false,
		`<!DOCTYPE svg [` + strings.Repeat(`<!ENTITY a "b">`, 20_000) + `]>`: false,
		`<!DOCTYPE svg [` + strings.Repeat(`<!ENTITY a "b">`, 1000) + `]>`:   true,
		`<!DOCTYPE svg [` + entities.String() + `]>`:                         false,
	} {
		is := is.New(t)
		found, allocated := find(prolog + svg)
		is.Equal(found, want)
		is.True(allocated < 32<<20)
	}
}

// TestFind_RemembersNoNames has an object with many fields.
func TestFind_RemembersNoNames(t *testing.T) {
	is := is.New(t)
	var data strings.Builder
	data.WriteString(`{"type":"image/png"`)
	for i := range 1 << 19 {
		fmt.Fprintf(&data, `,"%x":0`, i)
	}
	data.WriteString("}")
	found, allocated := find(data.String())
	is.True(!found)
	is.True(allocated < 2*uint64(data.Len()))
}

// TestFind_KeepsNoWhiteSpace: what is found may be kept in a cache, at its capacity.
func TestFind_KeepsNoWhiteSpace(t *testing.T) {
	is := is.New(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	found, ok := picture.Find(strings.Repeat(" ", 16<<20) + `<?xml version="1.0"?>` + svg)
	runtime.GC()
	runtime.ReadMemStats(&after)
	is.True(ok)
	is.True(int64(after.HeapAlloc)-int64(before.HeapAlloc) < 1<<20)
	runtime.KeepAlive(found)
}

// TestFind_LimitsAttributes: the decoder keeps the namespaces of all open elements, repeated
// ones too.
func TestFind_LimitsAttributes(t *testing.T) {
	t.Parallel()
	for attribute, most := range map[string]int{` xmlns:a="a"`: 100, ` xmlns="a"`: 100, ` a=""`: 1 << 16} {
		for _, count := range []int{most, most + 1} {
			_, found := picture.Find("<svg><g" + strings.Repeat(attribute, count) + "/></svg>")
			is.New(t).Equal(found, count == most)
		}
	}
}
