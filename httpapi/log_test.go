package httpapi_test

import (
	"strings"
	"testing"
)

// TestLog_RedactsSourceURLs: source URLs are often signed.
func TestLog_RedactsSourceURLs(t *testing.T) {
	t.Parallel()
	h := serve(t)
	sources := map[string]string{ // and their redacted form
		"https://user:secret@viewer.example/a.dwg?X-Signature=secret&id=7#secret": "https://viewer.example/a.dwg",
		"//viewer.example/b.dwg?token=secret":                                     "//viewer.example/b.dwg",
		"drawings/c.dwg?token=secret":                                             "drawings/c.dwg",
		"https://user:secret@viewer.example/%zz":                                  "[invalid URL]",
		"drawing 7":                                                               "drawing%207",
	}
	for source, shown := range sources {
		h.register(source, "gone.pdf", "")
		delete(h.files, "gone.pdf")
		h.client("POST", "/viewer/exports/download-batch", batchBody(source)).wantError(502, "export_failed")
		h.client("POST", "/viewer/exports/download", exportBody(source)).wantError(502, "export_failed")
		if !strings.Contains(h.log.String(), shown) {
			t.Errorf("%q is not logged", shown)
		}
	}
	if log := h.log.String(); strings.Contains(log, "secret") {
		t.Errorf("the log has secrets:\n%s", log)
	}
}
