package filename

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/matryer/is"
	"golang.org/x/text/unicode/norm"
)

var cleanNames = []struct{ given, want string }{
	{"plan.pdf", "plan.pdf"},
	{"résumé.pdf", "résumé.pdf"},
	{"re\u0301sume\u0301.pdf", "résumé.pdf"},
	{"图纸 1.dwg", "图纸 1.dwg"},
	{"🦆.png", "🦆.png"},
	{".hidden", ".hidden"},
	{"", ""},
	{".", ""},
	{"..", ""},
	{"...", ""},
	{" . . ", ""},
	{"\u200b\u200f", ""},
	{"../../etc/passwd", ".._.._etc_passwd"},
	{`..\..\boot.ini`, ".._.._boot.ini"},
	{"/abs/path", "_abs_path"},
	{`C:\x`, "C__x"},
	{`a:b*c?d"e<f>g|h`, "a_b_c_d_e_f_g_h"},
	{"a\x00b\x1fc\x7fd\u0085e", "abcde"},
	{"evil\u202egnp.exe", "evilgnp.exe"},
	{"zero\u200dwidth\ufeff.pdf", "zerowidth.pdf"},
	{"line\u2028break.pdf", "linebreak.pdf"},
	{"line\r\nbreak.pdf", "linebreak.pdf"},
	{"broken\xff\xfeutf8.pdf", "brokenutf8.pdf"},
	{"pl\u034fa\u115fn\u1160\u3164\uffa0.\u17b4\u17b5\u180ep\u2065df\ufff0\U000e0002", "plan.pdf"},
	{"\u3164", ""},
	{"\u034f\u115f \u1160\uffa0\u17b4\u17b5\u180e", ""},
	{"\u2800 \u2800", ""},
	{"\u2800⠏⠇\u2800⠁⠝\u2800", "⠏⠇\u2800⠁⠝"},
	{"❤\ufe0f.png", "❤\ufe0f.png"},
	{"1\ufe0f\u20e3.png", "1\ufe0f\u20e3.png"},
	{"\ufe0f", ""},
	{" \ufe0f.\U000e0100 \u180b", ""},
	{"a\ufe0f\u200b\ufe0f\ufe01b", "a\ufe0fb"},
	{"a" + strings.Repeat("\u0323", 40) + "b\u0301", "ạ" + strings.Repeat("\u0323", 29) + "b\u0301"},
	{strings.Repeat("\u0f73", 40) + ".txt", strings.Repeat("\u0f71", 15) + strings.Repeat("\u0f72", 15) + ".txt"},
	{strings.Repeat("ㅠ", 40), strings.Repeat("ㅠ", 40)},
	{strings.Repeat("\u0301", 35) + strings.Repeat("ㅠ", 26) + "\u0316\u0301" + strings.Repeat("\u0316", 8),
		strings.Repeat("\u0301", 30) + strings.Repeat("ㅠ", 26) + strings.Repeat("\u0316", 9) + "\u0301"},
	{"  spaced .pdf  ", "spaced .pdf"},
	{"trailing.dots...", "trailing.dots"},
	{"trailing.space. . ", "trailing.space"},
	{"-rf", "_rf"},
	{" --help.pdf", "_-help.pdf"},
	{"-", "_"},
	{"-.", "_"},
	{"\u200b-x", "_x"},
	{"a-b", "a-b"},
	{"con", "_con"},
	{"CON.txt", "_CON.txt"},
	{"nul.tar.gz", "_nul.tar.gz"},
	{"aux .txt", "_aux .txt"},
	{"COM1", "_COM1"},
	{"lpt9.pdf", "_lpt9.pdf"},
	{"COM¹.pdf", "_COM¹.pdf"},
	{"CONIN$", "_CONIN$"},
	{"COM10", "COM10"},
	{"console.log", "console.log"},
	{"com", "com"},
	{strings.Repeat("a", 300) + ".pdf", strings.Repeat("a", 251) + ".pdf"},
	{strings.Repeat("ä", 200) + ".pdf", strings.Repeat("ä", 125) + ".pdf"},
	{strings.Repeat("🦆", 100), strings.Repeat("🦆", 63)},
	{"x." + strings.Repeat("e", 300), "x." + strings.Repeat("e", 253)},
	{strings.Repeat("b", 254) + " .", strings.Repeat("b", 254)},
	{"CON" + strings.Repeat(" ", 300) + "x", "_CON"},
	{"nul" + strings.Repeat("\u3000", 100) + "abc", "_nul"},
	{"CON" + strings.Repeat(" ", 300) + "x.txt", "_CON" + strings.Repeat(" ", 247) + ".txt"},
	{"CON" + strings.Repeat(" ", 252) + ".txt", "_CON" + strings.Repeat(" ", 247) + ".txt"},
	{"COM1" + strings.Repeat(" ", 250) + "x.tar.gz", "_COM1" + strings.Repeat(" ", 247) + ".gz"},
	{"." + strings.Repeat(" ", 300) + "x", ""},
}

func TestClean(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range cleanNames {
		t.Log(c.given, c.want)
		is.Equal(Clean(c.given), c.want)
		is.Equal(Clean(c.want), c.want)
	}
}

// checkClean fails the test unless name has every property of a clean name.
func checkClean(t *testing.T, name string) {
	t.Helper()
	switch {
	case name == "" || name == "." || name == "..":
		t.Errorf("name is %q", name)
	case len(name) > maxBytes:
		t.Errorf("name has %d bytes: %q", len(name), name)
	case !utf8.ValidString(name) || strings.ReplaceAll(norm.NFC.String(name), graphemeJoiner, "") != name:
		t.Errorf("name is not composed UTF-8: %q", name)
	case strings.ContainsAny(name, `/\:*?"<>|`):
		t.Errorf("name has a reserved character: %q", name)
	case strings.ContainsFunc(name, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
	}):
		t.Errorf("name has an invisible character: %q", name)
	case !strings.ContainsFunc(name, func(r rune) bool { return !isBlank(r) && !unicode.Is(unicode.Variation_Selector, r) }):
		t.Errorf("name has no visible character: %q", name)
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		t.Errorf("name ends in a dot or space: %q", name)
	case isDeviceName(name):
		t.Errorf("name is a device name: %q", name)
	}
}

func TestExtension(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"application/pdf": ".pdf", "Application/PDF": ".pdf", "text/csv": ".csv", "text/csv; charset=iso-8859-1": ".csv",
		"image/jpeg": ".jpg", "image/tiff": ".tiff", "text/html": ".html", "application/xml": ".xml", "text/xml": ".xml", "application/dxf": ".dxf",
		"": "", "application/octet-stream": "", ".pdf": "", "pdf": "",
	} {
		if got := Extension(contentType); got != want {
			t.Errorf("Extension(%q) = %q, want %q", contentType, got, want)
		}
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plan.pdf": "application/pdf", "plan.v1.PDF": "application/pdf", ".pdf": "application/pdf", "a.jpg": "image/jpeg", "a.jpeg": "image/jpeg",
		"a.tif": "image/tiff", "a.htm": "text/html; charset=utf-8", "a.xml": "text/xml; charset=utf-8", "a.dxf": "image/vnd.dxf", "a.json": "application/json",
		"": "", "pdf": "", "a.": "", "a.bin": "", "a.pdf/b": "",
	} {
		if got := ContentType(name); got != want {
			t.Errorf("ContentType(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzDedup_Unique(f *testing.F) {
	for _, c := range cleanNames {
		f.Add(c.given, c.want)
	}
	f.Add("manifest.json", "MANIFEST.JSON")
	f.Add("straße", "STRASSE")
	f.Fuzz(func(t *testing.T, a, b string) {
		is := is.New(t)
		names := NewDedup("manifest.json")
		seen := map[string]bool{foldCase("manifest.json"): true}
		for _, given := range []string{a, b, a, b, a} {
			name := Clean(given)
			if name == "" {
				name = "canvas-export"
			}
			checkClean(t, name)
			is.Equal(Clean(name), name)
			unique := names.Unique("", name)
			checkClean(t, unique)
			is.Equal(Clean(unique), unique)
			if key := foldCase(unique); seen[key] {
				t.Errorf("Unique returns %q twice", unique)
			} else {
				seen[key] = true
			}
		}
	})
}

func TestDedup_UniqueReturnsEachNameOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup("manifest.json")
	for _, c := range []struct{ given, want string }{
		{"plan.pdf", "plan.pdf"},
		{"plan.pdf", "plan-1.pdf"},
		{"plan-1.pdf", "plan-1-1.pdf"},
		{"plan.pdf", "plan-2.pdf"},
		{"PLAN.PDF", "PLAN-3.PDF"},
		{"a.tar.gz", "a.tar.gz"},
		{"a.tar.gz", "a.tar-1.gz"},
		{"manifest.json", "manifest-1.json"},
		{"Manifest.JSON", "Manifest-2.JSON"},
		{"noext", "noext"},
		{"noext", "noext-1"},
		{".env", ".env"},
		{".env", ".env-1"},
		{"straße", "straße"},
		{"STRASSE", "STRASSE-1"},
		{"ångström", "ångström"},
		{"ÅNGSTRÖM", "ÅNGSTRÖM-1"},
		{"\u212bngström", "Ångström-2"},
	} {
		is.Equal(names.Unique("", Clean(c.given)), c.want)
	}
	long := strings.Repeat("ä", 125) + ".pdf"
	is.Equal(names.Unique("", long), long)
	second := names.Unique("", long)
	is.Equal(second, strings.Repeat("ä", 124)+"-1.pdf") // the stem is shorter by the number

	long = Clean("NUL" + strings.Repeat(" ", 247) + "x.txt")
	is.Equal(len(long), 255) // one more space would leave a device name
	for range 20 {
		checkClean(t, names.Unique("", long))
	}
}

func TestDedup_DropsFoldersOfLongPaths(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup()
	for _, folder := range []string{"a", strings.Repeat("漢", 85), strings.Repeat("\U0001d160", 21)} { // 1, 255 and 252 bytes
		for range 3 {
			unique := names.Unique(strings.Repeat(folder+"/", 4000), strings.Repeat("n", 255))
			is.True(len(unique) > 3700)
			is.True(len(unique) < 4010) // with numbers
		}
	}
}

// allocated returns how many bytes f allocates. Its callers must not run in parallel with
// other tests.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDedup_MemoryIsLinearInDepth(t *testing.T) {
	unique := func(depth int) uint64 {
		return allocated(func() { NewDedup().Unique(strings.Repeat("a/", depth), "plan.pdf") })
	}
	is.New(t).True(unique(800) < 2*8*unique(100))
}

// TestDedup_WorkIsLinearInNames has names of which each takes an attempt for all earlier ones
// unless Dedup remembers numbers. Attempts allocate.
func TestDedup_WorkIsLinearInNames(t *testing.T) {
	long := strings.Repeat("\u0390", 126)
	for name, unique := range map[string]func(d *Dedup, i, count int) string{
		"truncated": func(d *Dedup, i, _ int) string { return d.Unique("", long+string(rune(0x4e00+i/2))) },
		"folder": func(d *Dedup, i, count int) string {
			if i < count/2 {
				return d.Unique("", long)
			}
			return d.Unique(long, "x")
		},
		"folders": func(d *Dedup, i, count int) string {
			name := long + string(rune(0x4e00+i/2))
			switch {
			case i < count/2:
				return d.Unique("", long+"\u4e00")
			case i%2 == 0:
				return d.Unique("", name)
			}
			return d.Unique(name, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			work := func(count int) uint64 {
				d, seen := NewDedup(), make(map[string]bool)
				defer func() { is.Equal(len(seen), count) }()
				return allocated(func() {
					for i := range count {
						seen[foldCase(unique(d, i, count))] = true
					}
				})
			}
			is.True(work(800) < 2*8*work(100))
		})
	}
}

func TestDedup_FolderKeepsItsNumber(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup()
	for _, c := range []struct{ folder, name, want string }{
		{"", "a", "a"},
		{"", "a", "a-1"},
		{"a", "x", "a-2/x"},
		{"", "A", "A-3"},
		{"A", "x", "A-2/x-1"},
		{"a-1", "x", "a-1-1/x"},
		{"a-2", "x", "a-2/x-2"},
	} {
		is.Equal(names.Unique(c.folder, c.name), c.want)
	}
}

func BenchmarkDedup_Unique(b *testing.B) {
	for b.Loop() {
		names := NewDedup("manifest.json")
		for i := range 1000 {
			names.Unique("", Clean(fmt.Sprintf("drawing %d.pdf", i%10)))
		}
	}
}
