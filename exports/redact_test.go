package exports_test

import (
	"strings"
	"testing"

	"example.com/canvasback/exports"
)

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"https://user:secret@viewer.example/a.dwg?X-Signature=secret&id=7#secret": "https://viewer.example/a.dwg",
		"https://secret@viewer.example:8443/a%2Fb%20c":                            "https://viewer.example:8443/a%2Fb%20c",
		"http://user:secret@[2606:4700::1]:80?secret":                             "http://[2606:4700::1]:80",
		"https://viewer.example/a@b/c?secret":                                     "https://viewer.example/a@b/c",
		"https://bücher.example/é?secret":                                         "https://b%C3%BCcher.example/%C3%A9",
		"//user:secret@viewer.example/b.dwg?token=secret":                         "//viewer.example/b.dwg",
		"drawings/c.dwg?token=secret":                                             "drawings/c.dwg",
		"drawing 7":                                                               "drawing%207",
		"urn:drawing:7?secret#secret":                                             "urn:drawing:7",
		`C:\drawings\d.dwg`:                                                       `c:\drawings\d.dwg`,
		"dwg:plan key 5":                                                          "dwg:plan%20key%205",
		"plan key 5":                                                              "plan%20key%205",
		" https://viewer.example/e?secret\n":                                      "https://viewer.example/e",
		"https://canvas.example/v/exports/links/" + strings.Repeat("-_sT", 10) + "abc/plan.pdf": "https://canvas.example/v/exports/links/.../plan.pdf",
		"https://canvas.example/exports/links/%41" + strings.Repeat("a", 42) + "/a%2Fb":         "https://canvas.example/exports/links/.../a/b",
		"canvas.example:443/exports/links/" + strings.Repeat("a", 43) + "/a.pdf":                "canvas.example:443/exports/links/.../a.pdf",
		"/exports/links/" + strings.Repeat("a", 43):                                             "/exports/links/...",
		"links/" + strings.Repeat("a", 43) + "/a.pdf":                                           "links/.../a.pdf",

		"?secret": "",
		"":        "",

		"https://viewer.example/" + strings.Repeat("a", 8000) + "?secret": "https://viewer.example/" + strings.Repeat("a", 177) + "...",
		"x:" + strings.Repeat("é", 8000):                                  "x:" + strings.Repeat("é", 99) + "...",

		"https://viewer.example/%zz?token=secret": "[invalid URL]",
		"https://user:secret@viewer.example/%zz":  "[invalid URL]",
		"https://user:sec ret@viewer.example/":    "[invalid URL]",
		"https://secret:x:y@[/":                   "[invalid URL]",
		"us_er:secret@viewer.example":             "[invalid URL]",
		"user:secret@viewer.example/a":            "[invalid URL]",
		"user:sec/ret@viewer.example":             "[invalid URL]",
		"https://viewer.example/\nsecret":         "[invalid URL]",
	} {
		if got := exports.RedactURL(rawURL); got != want {
			t.Errorf("RedactURL(%q) = %q, want %q", rawURL, got, want)
		}
	}
}
