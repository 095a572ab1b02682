package bundle_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

func TestRead_PlainZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	image := pngOf(t, 20, 10)
	contents := must(bundle.Read(t.Context(), zipOf(t,
		file{name: "valves/"},
		file{name: "valves/Gate valve.svg", content: drawing},
		file{name: "valves/.DS_Store", content: "x"},
		file{name: "__MACOSX/valves/._Gate valve.svg", content: "x"},
		file{name: `windows\Globe & ball.SVG`, content: drawing},
		file{name: "photo.v2.png", content: image},
		file{name: "other/photo.v2.png", content: image},
		file{name: "/etc/Thumbs.db"},
		file{name: "../../x.png", content: image},
		file{name: "desktop.ini"},
	), nil))(t)
	is.Equal(contents.Ignored, []bundle.FileNote{
		{"valves/", "directory"},
		{"valves/.DS_Store", "operating system file"},
		{"__MACOSX/valves/._Gate valve.svg", "operating system file"},
		{"/etc/Thumbs.db", "operating system file"},
		{"desktop.ini", "operating system file"},
	})
	var names []string
	for _, f := range contents.Files {
		names = append(names, f.Name+" | "+f.Symbol.Name+" | "+f.Symbol.Type)
	}
	is.Equal(names, []string{
		"valves/Gate valve.svg | Gate valve | image/svg+xml",
		"windows/Globe & ball.SVG | Globe & ball | image/svg+xml",
		"photo.v2.png | photo.v2 | image/png",
		"other/photo.v2.png | photo.v2 | image/png",
		"../../x.png | x | image/png",
	})
	is.Equal(contents.Files[1].Symbol.Data, strings.Replace(viewerData("Globe & ball", "image/svg+xml", drawing), `"height":96`, `"height":48`, 1))
	is.Equal(contents.Files[2].Symbol.Data,
		strings.Replace(viewerData("photo.v2", "image/png", image), `"width":96,"height":96`, `"width":20,"height":10`, 1))

	// Write gives the imported files back.
	files := unzip(t, writeBundle(t, "F", contents.Symbols()...))
	is.Equal(files[0], file{name: "Gate valve.svg", content: drawing})
	is.Equal(files[4], file{name: "x.png", content: image})
}

func TestRead_SVGSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		attributes    string
		width, height float64
	}{
		{`width="96" height="48"`, 96, 48},
		{`width=" 96.5px " height="4.8E1PX"`, 96.5, 48},
		{`width="1in" height="6pc"`, 96, 96},
		{`width="72pt" height="2.54cm"`, 96, 96},
		{`width="25.4mm" height="101.6Q"`, 96, 96},
		{`width="2em" height="2ex"`, 32, 16},
		{`width="10mm" height="+.5rem"`, 37.795, 8},
		{`viewBox="0 0 24 12"`, 24, 12},
		{"viewBox='-1,-2 , 24.5\n12'", 24.5, 12},
		{`width="100%" height="100%" viewBox="0 0 24 12"`, 24, 12},
		{`width="auto" viewBox="0 0 24 12"`, 24, 12},
		{`width="48" viewBox="0 0 24 12"`, 48, 24},
		{`height="48" viewBox="0 0 24 12"`, 96, 48},
		{`width="0" height="-5" viewBox="0 0 24 12"`, 24, 12},
		{`width="96" height="48" viewBox="0 0 1 1"`, 96, 48},
		{``, 300, 150},
		{`width="50"`, 50, 150},
		{`height="50vh"`, 300, 150},
		{`viewBox="0 0 0 12"`, 300, 150},
		{`viewBox="0 0 24"`, 300, 150},
		{`viewBox="0 0 NaN Inf"`, 300, 150},
		{`viewBox="0 0 10 0"`, 300, 150},
		{`viewBox="0 0 1e999 10"`, 300, 150},
		{`width="NaN" height="Infinity"`, 300, 150},
		{`width="0x10" height="1_0"`, 300, 150},
		{`width="1e999" height="1e300"`, 300, 150},
		{`width="1e-9" viewBox="0 0 1e-300 1e300"`, 300, 150},
		{`x:width="5" xmlns:x="urn:x"`, 300, 150},
	} {
		contents, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.svg", content: `<svg xmlns="http://www.w3.org/2000/svg" ` + c.attributes + `/>`}), nil)
		if err != nil {
			t.Errorf("%s: %v", c.attributes, err)
			continue
		}
		var data struct{ Width, Height float64 }
		is.NoErr(json.Unmarshal([]byte(contents.Files[0].Symbol.Data), &data))
		if data.Width != c.width || data.Height != c.height {
			t.Errorf("%s: %v x %v, want %v x %v", c.attributes, data.Width, data.Height, c.width, c.height)
		}
	}
}

func TestRead_SVGOfDrawingPrograms(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"\ufeff" + `<?xml version="1.0" encoding="UTF-8" standalone="no"?>` + "\r\n<!-- generated -->" + drawing + "\n<!-- end -->\n",
		`<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" [
	<!ENTITY ns_svg "http://www.w3.org/2000/svg">
	<!ENTITY ns_xlink "http://www.w3.org/1999/xlink">
]>
<svg xmlns="&ns_svg;" xmlns:xlink="&ns_xlink;" width="10" height="10"><g id="&#xe9;"/></svg>`,
		"<?xml version='1.0' encoding='ISO-8859-1'?>\r\n<!-- \xe9 -->\r\n\r <svg/>\r\n",
		`<?xml version="1.0" encoding="ISO-8859-1"?><svg width="1" height="1"><text>` + "caf\xe9" + `</text></svg>`,
		`<?xml version="1.1"?><svg/>`,
		strings.Repeat("\n", 70) + drawing,
		`<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:style><![CDATA[ a > b { } ]]></s:style></s:svg>`,
	} {
		if _, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.svg", content: content}), nil); err != nil {
			t.Errorf("%s: %+v", content, rejections(err))
		}
	}
}

func TestRead_RejectsMalformedSVG(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, inner := range []string{
		"<a>", "</a>", "<a></b>", "<a><b></a></b>", "<a", "<a b", "<a b=", "<a b='", "<a b=c/>", "<a b/>", "<a b='<'/>",
		"<1/>", "< a/>", "<>", "<!-- ", "<![CDATA[ ]>", "<? ?", "&", "& ", "&x", "&x;", "&#;", "&#x;", "&#xg;", "<a b='&x;'/>", "\x00", "\x1b",
		"<!DOCTYPE svg>", strings.Repeat("<a>", 1000) + strings.Repeat("</a>", 1000),
	} {
		t.Log(inner)
		_, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.svg", content: "<svg>" + inner + "</svg>"}), nil)
		is.Equal(rejections(err), "a.svg: broken SVG: it is not well-formed XML")
	}
	for _, content := range []string{"<![CDATA[]]><svg/>", "<!DOCTYPE svg <svg/>", "<svg/><!DOCTYPE svg>", "x<svg/>", "<svg/>&amp;", "<svg/>&#xa;", "<!-- -->&#32;<svg/>", "<svg/> <![CDATA[ ]]>", "\xff\xfe<\x00s\x00"} {
		t.Log(content)
		_, err := bundle.Read(t.Context(), zipOf(t, file{name: "a.svg", content: content}), nil)
		is.Equal(rejections(err), "a.svg: broken SVG: it is not well-formed XML")
	}
	deep := "<svg>" + strings.Repeat("<a>", 900) + strings.Repeat("</a>", 900) + "</svg>"
	must(bundle.Read(t.Context(), zipOf(t, file{name: "a.svg", content: deep}), nil))(t)
}

// rejections returns the files and reasons of a RejectedError.
func rejections(err error) string {
	rejected := new(bundle.RejectedError)
	if !errors.As(err, &rejected) {
		return fmt.Sprint(err)
	}
	var list []string
	for _, note := range rejected.Files {
		list = append(list, note.File+": "+note.Reason)
	}
	return strings.Join(list, "; ")
}

const (
	// oddJPEG has components with the sampling factors 2x2, 1x2 and 2x1.
	oddJPEG = "\xff\xd8\xff\xc0\x00\x11\x08\x00\x20\x00\x20\x03\x01\x22\x00\x02\x12\x00\x03\x21\x00"
	icon    = "\x00\x00\x01\x00\x01\x00\x01\x01\x00\x00\x01\x00\x20\x00\x02\x00\x00\x00\x16\x00\x00\x00xx"
)

// An icon can be stored, but not imported.
func TestRead_RejectsIcon(t *testing.T) {
	is.New(t).Equal(rejections(readError(t, []byte(icon), nil)), "symbol: not an SVG, PNG, JPEG, GIF or WebP")
}

func TestRead_RejectsFiles(t *testing.T) {
	t.Parallel()
	image := pngOf(t, 20, 10)
	for want, f := range map[string]file{
		"odd.jpg: a kind of JPEG that is not supported":                        {name: "odd.jpg", content: oddJPEG},
		"a.jpg: an icon, not a JPEG":                                           {name: "a.jpg", content: icon},
		"a.gif: broken GIF":                                                    {name: "a.gif", content: "GIF89a"},
		"svg: neither a picture nor a library":                                 {name: "svg", content: drawing},
		"a.svgz: neither a picture nor a library":                              {name: "a.svgz", content: drawing},
		"a.svg: not an SVG":                                                    {name: "a.svg", content: "<html/>"},
		"b.svg: not an SVG":                                                    {name: "b.svg", content: `<svg xmlns="http://www.w3.org/1999/xhtml"/>`},
		"c.svg: broken SVG: it is not well-formed XML":                         {name: "c.svg", content: ""},
		"d.svg: broken SVG: it is not well-formed XML":                         {name: "d.svg", content: drawing[:len(drawing)-3]},
		"e.svg: broken SVG: it is not well-formed XML":                         {name: "e.svg", content: drawing + drawing},
		"f.svg: broken SVG: it is not well-formed XML":                         {name: "f.svg", content: drawing + "text"},
		"g.svg: broken SVG: it is not well-formed XML":                         {name: "g.svg", content: "<svg>&nbsp;</svg>"},
		"h.svg: an SVG in an encoding that is not supported; save it in UTF-8": {name: "h.svg", content: "<svg>\xff</svg>"},
		"j.svg: an SVG in an encoding that is not supported; save it in UTF-8": {name: "j.svg", content: `<?xml version="1.0" encoding="Shift_JIS"?><svg>` + "\x83\x6f</svg>"},
		"a.svg: a symbolic link":                                               {name: "a.svg", content: "b.svg", alter: func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }},
		"i.svg: a PNG, not an SVG":                                             {name: "i.svg", content: image},
		"a.png: an SVG, not a PNG":                                             {name: "a.png", content: drawing},
		"i.png: not a picture":                                                 {name: "i.png", content: "text"},
		"a.webp: not a picture":                                                {name: "a.webp", content: "riff\x16\x00\x00\x00WEBPVP8X" + strings.Repeat("\x00", 14)},
		"b.png: broken PNG":                                                    {name: "b.png", content: image[:len(image)-1]},
		"c.png: broken PNG":                                                    {name: "c.png", content: image[:45]},
		"d.png: broken PNG":                                                    {name: "d.png", content: strings.Replace(image, "IDAT", "IDOT", 1)},
		"e.png: broken PNG":                                                    {name: "e.png", content: image[:8] + image[33:]},
		"f.png: broken PNG":                                                    {name: "f.png", content: image[:8] + "\xff\xff\xff\xff" + image[12:]},
		"g.png: broken PNG":                                                    {name: "g.png", content: image[:33] + image[len(image)-12:]},
		"h.png: broken PNG":                                                    {name: "h.png", content: strings.Replace(image, "\x14", "\x15", 1)},
		".png: name must not be empty":                                         {name: ".png", content: image},
		"x/ .png: name must not be empty":                                      {name: "x/ .png", content: image},
		"\x00.png: name must not contain a NUL character":                      {name: "\x00.png", content: image},
		"\u00a0.png: name must not be empty":                                   {name: "\xff.png", content: image},
		"crc.png: damaged":                                                     {name: "crc.png", content: image, alter: func(h *zip.FileHeader) { h.CRC32++ }},
		"crc0.png: damaged":                                                    {name: "crc0.png", content: image, alter: func(h *zip.FileHeader) { h.CRC32 = 0 }},
		"short.png: damaged":                                                   {name: "short.png", content: image, alter: func(h *zip.FileHeader) { h.UncompressedSize64-- }},
		"long.png: damaged":                                                    {name: "long.png", content: image, alter: func(h *zip.FileHeader) { h.UncompressedSize64++ }},
		"deflate.png: damaged":                                                 {name: "deflate.png", content: image, alter: func(h *zip.FileHeader) { h.Method = zip.Deflate }},
		"bzip2.png: unsupported compression method":                            {name: "bzip2.png", content: image, alter: func(h *zip.FileHeader) { h.Method = 12 }},
		"secret.png: encrypted":                                                {name: "secret.png", content: image, alter: func(h *zip.FileHeader) { h.Flags |= 1 }},
		"aes.png: encrypted":                                                   {name: "aes.png", content: image, alter: func(h *zip.FileHeader) { h.Flags |= 1; h.Method = 99 }},
		strings.Repeat("ä", 256) + ".png: name must have at most 255 characters": {name: strings.Repeat("ä", 256) + ".png", content: image},
	} {
		contents, err := bundle.Read(t.Context(), zipOf(t, file{name: "good.svg", content: drawing}, f), nil)
		if got := rejections(err); got != want || contents != nil || !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("%.100q: got %q, want %q", f.name, got, want)
		}
	}
}

func TestRead_ListsRejectedFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := bundle.Read(t.Context(), zipOf(t,
		file{name: "a.pdf"}, file{name: "good.svg", content: drawing}, file{name: "b.svg"}, file{name: "good.svg", content: drawing}), nil)
	is.Equal(rejections(err), "a.pdf: neither a picture nor a library; b.svg: broken SVG: it is not well-formed XML; good.svg: more than one file has this name")
	is.Equal(err.Error(), "3 files cannot be imported")

	many := make([]file, 150)
	for i := range many {
		many[i].name = fmt.Sprint(i)
	}
	_, err = bundle.Read(t.Context(), zipOf(t, many...), nil)
	rejected := new(bundle.RejectedError)
	is.True(errors.As(err, &rejected))
	is.Equal(len(rejected.Files), 100)
	is.Equal(err.Error(), "150 files cannot be imported; the first 100 are listed")
	is.Equal(readError(t, zipOf(t, many[0]), nil).Error(), "1 file cannot be imported")
}

func TestRead_AcceptsEmptyBundle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	contents := must(bundle.Read(t.Context(), writeBundle(t, "no symbols"), nil))(t)
	is.Equal(len(contents.Files), 0)
}

func TestRead_RejectsInvalidOrEmptyZip(t *testing.T) {
	t.Parallel()
	for want, archive := range map[string][]byte{
		"the archive is not a zip":               zipOf(t, file{name: "a.svg", content: drawing})[:100],
		"nothing in the zip can be imported":     zipOf(t),
		"nothing in the zip can be imported\x00": zipOf(t, file{name: "a/"}, file{name: ".DS_Store"}),
	} {
		_, err := bundle.Read(t.Context(), archive, nil)
		if !errors.Is(err, bundle.ErrInvalid) || err.Error() != strings.TrimRight(want, "\x00") {
			t.Errorf("%q: %v", want, err)
		}
	}
	for _, archive := range []string{"", "PK", "PK\x05\x06", "hello", strings.Repeat("PK\x05\x06", 1000), "\x1f\x8b"} {
		_, err := bundle.Read(t.Context(), []byte(archive), nil)
		if !errors.Is(err, bundle.ErrInvalid) || !strings.HasPrefix(err.Error(), "the archive is not a zip") {
			t.Errorf("%.20q: %v", archive, err)
		}
	}
}

func TestRead_StopsWhenContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, archive := range [][]byte{
		zipOf(t, file{name: "a.svg", content: drawing}),
		writeBundle(t, "F", symbols.NewSymbol{Name: "n", Type: "a/b", Data: "d"}),
	} {
		if _, err := bundle.Read(ctx, archive, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
