package picture_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

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
		{"data:image/png;base64,!" + b64(pngImage), "", ""},
		{"data:image/png," + b64(pngImage), "", ""},
		{"data:image/png;base64" + b64(pngImage), "", ""},
		{"data:image/jpeg;base64," + b64(pngImage), "", ""},
		{"data:text/html;base64," + b64(svg), "", ""},
		{"data:image;base64," + b64(pngImage), "", ""},
		{"data:application/octet-stream;base64," + b64(pngImage), "", ""},
		{"data:image/svg+xml," + svg, "image/svg+xml", svg},
		{"data:image/svg+xml;utf8," + svg, "image/svg+xml", svg},
		{"data:image/svg+xml;charset=utf-8;charset=utf-8," + url.PathEscape(svg), "image/svg+xml", svg},
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

func TestSize_RejectsEmptyWebP(t *testing.T) {
	t.Parallel()
	for size, accepted := range map[string]bool{"\x01\x00\x02\x00": true, "\x00\x00\x02\x00": false, "\x01\x00\x00\x40": false} {
		_, _, err := picture.Size("image/webp", []byte("RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a"+size))
		is.New(t).Equal(err == nil, accepted)
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

// TestFind_LimitsNamespaces: the decoder keeps those of all open elements, repeated ones too.
func TestFind_LimitsNamespaces(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]bool{100: true, 101: false} {
		for _, declaration := range []string{` xmlns:a="a"`, ` xmlns="a"`} {
			_, found := picture.Find("<svg><g" + strings.Repeat(declaration, count) + "/></svg>")
			is.New(t).Equal(found, want)
		}
	}
}
