package fetch_test

import (
	"testing"

	"example.com/canvasback/exports/fetch"
)

func TestFileName(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                      "",
		"attachment":                            "",
		"inline; filename=plan.pdf":             "plan.pdf",
		`attachment; filename="a b.pdf"`:        "a b.pdf",
		`attachment; FileName="a\"b.pdf"`:       `a"b.pdf`,
		`attachment; filename="résumé.pdf"`:     "résumé.pdf",
		"attachment; filename=my plan.pdf":      "my plan.pdf",
		"attachment; filename=my plan.pdf; x=y": "my plan.pdf",
		`filename="bare.pdf"`:                   "bare.pdf",
		"attachment; filename=ȺȺȺ pl a n":       "ȺȺȺ pl a n",
		"attachment; filename=":                 "",
		"ȺȺȺȺȺȺȺȺȺȺ filename=":                  "",
		`attachment; filename="a.pdf"; filename*=UTF-8''%E2%82%AC.pdf`: "€.pdf",
		`attachment; filename*=UTF-8''%E2%82%AC.pdf; filename="a.pdf"`: "€.pdf",
		`attachment; filename="a.pdf"; filename*=ISO-8859-1''%E4.pdf`:  "a.pdf",
		`attachment; filename="a.pdf"; filename*=UTF-8''%`:             "a.pdf",
		"attachment; filename=plan.pdf; filename=other.pdf":            "plan.pdf",
		`attachment; filename="../../etc/passwd"`:                      "../../etc/passwd", // package filename cleans it
	} {
		if got := fetch.FileName(header); got != want {
			t.Errorf("FileName(%q) = %q, want %q", header, got, want)
		}
	}
}

func TestEntityTag(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		`"a"`: `"a"`, `W/"a"`: `W/"a"`, `""`: `""`,
		``: ``, `a`: ``, `"`: ``, `"a`: ``, `a"`: ``, `w/"a"`: ``, `W/`: ``, `"a"b"`: ``, `"a", "b"`: ``,
	} {
		if got := fetch.EntityTag(header); got != want {
			t.Errorf("EntityTag(%q) = %q, want %q", header, got, want)
		}
	}
}

func TestParseContentRange(t *testing.T) {
	t.Parallel()
	first, length, size, ok := fetch.ParseContentRange("bytes 5-9/10")
	if first != 5 || length != 5 || size != 10 || !ok {
		t.Errorf("%d, %d, %d, %t", first, length, size, ok)
	}
	first, length, size, ok = fetch.ParseContentRange("bytes 5-9/*")
	if first != 5 || length != 5 || size != -1 || !ok {
		t.Errorf("%d, %d, %d, %t", first, length, size, ok)
	}
	for _, header := range []string{"", "bytes", "bytes 5-9", "bytes 5-9/", "bytes 9-5/*", "bytes */10", "bytes 5-/10", "bytes -5/10", "5-9/10",
		"bytes 9-5/10", "bytes 5-10/10", "bytes +5-9/10", "bytes 5-9/99999999999999999999", "bytes 5-9/10 ", "items 5-9/10"} {
		if _, _, _, ok := fetch.ParseContentRange(header); ok {
			t.Errorf("ParseContentRange accepts %q", header)
		}
	}
}
