package httpapi

import (
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/ranges"
	"example.com/canvasback/symbols"
)

// dispositionSyntax is the syntax of RFC 6266 and RFC 8187.
var dispositionSyntax = regexp.MustCompile(`^attachment; filename="([ !#-\[\]-~]*)"(; filename\*=UTF-8''((?:[A-Za-z0-9!#$&+.^_` + "`" + `|~-]|%[0-9A-F]{2})+))?$`)

var percentEscape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func FuzzDisposition(f *testing.F) {
	for _, name := range []string{
		"plan.pdf", `a"b\c.pdf`, "Résumé.pdf", "图纸.dwg", "🦆", "50%25 off; filename=x.exe", "a'b''c*", "%", "\u00a0", "e\u0301", "UTF-8''x", "\x7f", "\ufffd", "\xff.pdf",
		"line\r\nSet-Cookie: a=b", strings.Repeat("ä", 200), "%2e%2e%2f", "%00", "UTF-8''..%2f..%2Fx", "ISO-8859-1''%A3", "%%41", "100%", "%2g",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, given string) {
		name := filename.Clean(given)
		if name == "" {
			return
		}
		header := filename.Disposition("attachment", name)
		parts := dispositionSyntax.FindStringSubmatch(header)
		if parts == nil {
			t.Fatalf("the header for %q is malformed: %q", name, header)
		}
		kind, parameters, err := mime.ParseMediaType(header)
		if err != nil || kind != "attachment" || parameters["filename"] != name {
			t.Errorf("%q is parsed as %q, want %q: %v", header, parameters["filename"], name, err)
		}
		if parts[2] == "" && parts[1] != name {
			t.Errorf("%q has only the name %q, want %q", header, parts[1], name)
		}
		if decoded, err := url.PathUnescape(parts[3]); parts[2] != "" && (err != nil || decoded != name) {
			t.Errorf("%q is decoded as %q, want %q: %v", header, decoded, name, err)
		}
		if percentEscape.MatchString(parts[1]) {
			t.Errorf("%q has an ASCII name with a percent escape", header)
		}
		if len(parts[1]) != utf8.RuneCountInString(name) {
			t.Errorf("%q has an ASCII name of %d characters, want %d", header, len(parts[1]), utf8.RuneCountInString(name))
		}
	})
}

// tagListSyntax is the syntax of If-None-Match (RFC 9110, section 13.1.2).
var tagListSyntax = regexp.MustCompile(`^[ \t]*(?:\*|(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"(?:[ \t]*,(?:[ \t]*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*")?)*)[ \t]*$`)

// FuzzParseTags checks that no header causes a panic, and that a well-formed one is
// matched as net/http does.
func FuzzParseTags(f *testing.F) {
	for _, header := range []string{
		`*`, ` * `, `"1"`, `W/"1"`, `"a", "1"`, `"a,b" ,,W/"1"`, `"1`, `1`, `""`, `w/"1"`, `"1""1"`, `"1" "1"`, `"*"`, `*, "1"`, `"1", *`, `W/`, `"-1"`, `"+1"`, `"01"`, "\"\x80\"",
		strings.Repeat(`"a",`, 100) + `"1"`, strings.Repeat(`,`, 100), `"1y2p0ij32e8e7"`, `"1y2p0ij32e8e8"`,
	} {
		f.Add(header, int64(1))
	}
	f.Fuzz(func(t *testing.T, header string, number int64) {
		version := symbols.Version(max(number, 1))
		if n := len(ranges.ParseTags([]string{header}).List); n > strings.Count(header, `"`)/2 {
			t.Errorf("%q has %d tags", header, n)
		}
		// Several tags stand for one version: compressed, or with a dash.
		if !tagListSyntax.MatchString(header) || strings.ContainsAny(header, "-.") {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["If-None-Match"] = []string{header}
		recorder := httptest.NewRecorder()
		recorder.Header().Set("ETag", tag{version: version}.String())
		http.ServeContent(recorder, r, "", time.Time{}, strings.NewReader("x"))
		if got := knownTag(ranges.ParseTags(r.Header["If-None-Match"]), version, "") != ""; got != (recorder.Code == http.StatusNotModified) {
			t.Errorf("%q for %s: not modified is %v, unlike in net/http", header, tag{version: version}, got)
		}
	})
}
