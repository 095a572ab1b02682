package filename

import (
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
