package ranges

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/matryer/is"
)

// modified has a fraction of a second, which Last-Modified does not show.
var modified = time.Date(2026, 3, 30, 10, 20, 31, 600_000_000, time.UTC)

const (
	same   = "Mon, 30 Mar 2026 10:20:31 GMT"
	before = "Mon, 30 Mar 2026 10:20:30 GMT"
	after  = "Mon, 30 Mar 2026 10:20:32 GMT"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	strong := Representation{Size: 100, ETag: `"a"`, Modified: modified, ModifiedStrong: true}
	weak := Representation{Size: 100, ETag: `W/"a"`, Modified: modified}
	plain := Representation{Size: 100}
	unknown := Representation{Size: -1, ETag: `"a"`}
	const part = "bytes=0-9"
	type h = []string // names and values
	for _, c := range []struct {
		rep    Representation
		header h
		want   int
	}{
		{strong, nil, 200},
		{strong, h{"Range", part}, 206},
		{strong, h{"Range", "bytes=100-"}, 416},
		{strong, h{"Range", "items=0-9"}, 200},
		{unknown, h{"Range", part}, 200},

		// section 13.1.1
		{strong, h{"If-Match", `"a"`}, 200},
		{strong, h{"If-Match", `"b", "a"`}, 200},
		{strong, h{"If-Match", `"b"`, "If-Match", `"a"`}, 200},
		{strong, h{"If-Match", `*`}, 200},
		{strong, h{"If-Match", `"b"`}, 412},
		{strong, h{"If-Match", `W/"a"`}, 412},
		{strong, h{"If-Match", ``}, 412},
		{weak, h{"If-Match", `W/"a"`}, 412},
		{weak, h{"If-Match", `"a"`}, 412},
		{weak, h{"If-Match", `*`}, 200},
		{plain, h{"If-Match", `""`}, 412},
		{plain, h{"If-Match", `*`}, 200},
		{strong, h{"If-Match", `"b"`, "Range", part}, 412},
		{strong, h{"If-Match", `"a"`, "Range", part}, 206},

		// section 13.1.2
		{strong, h{"If-None-Match", `"a"`}, 304},
		{strong, h{"If-None-Match", `W/"a"`}, 304},
		{strong, h{"If-None-Match", `"b", "a"`}, 304},
		{strong, h{"If-None-Match", `"b", W/"c"`}, 200},
		{strong, h{"If-None-Match", `*`}, 304},
		{weak, h{"If-None-Match", `"a"`}, 304},
		{weak, h{"If-None-Match", `W/"a"`}, 304},
		{weak, h{"If-None-Match", `W/"b"`}, 200},
		{plain, h{"If-None-Match", `""`}, 200},
		{plain, h{"If-None-Match", `*`}, 304},
		{strong, h{"If-None-Match", `"a"`, "Range", part}, 304},
		{strong, h{"If-None-Match", `"a"`, "Range", "bytes=100-"}, 304},
		{strong, h{"If-None-Match", `"b"`, "Range", part}, 206},

		// section 13.1.3
		{strong, h{"If-Modified-Since", before}, 200},
		{strong, h{"If-Modified-Since", same}, 304},
		{strong, h{"If-Modified-Since", after}, 304},
		{strong, h{"If-Modified-Since", "Monday, 30-Mar-26 10:20:31 GMT"}, 304},
		{strong, h{"If-Modified-Since", "Mon Mar 30 10:20:31 2026"}, 304},
		{strong, h{"If-Modified-Since", "tomorrow"}, 200},
		{strong, h{"If-Modified-Since", after, "If-Modified-Since", after}, 200},
		{plain, h{"If-Modified-Since", after}, 200},
		{strong, h{"If-None-Match", `"b"`, "If-Modified-Since", after}, 200},
		{strong, h{"If-None-Match", `"a"`, "If-Modified-Since", before}, 304},

		// section 13.1.4
		{strong, h{"If-Unmodified-Since", before}, 412},
		{strong, h{"If-Unmodified-Since", same}, 200},
		{strong, h{"If-Unmodified-Since", after}, 200},
		{strong, h{"If-Unmodified-Since", "yesterday"}, 200},
		{plain, h{"If-Unmodified-Since", before}, 200},
		{strong, h{"If-Match", `"a"`, "If-Unmodified-Since", before}, 200},
		{strong, h{"If-Unmodified-Since", before, "If-None-Match", `"a"`}, 412},

		// section 13.1.5
		{strong, h{"If-Range", `"a"`}, 200},
		{strong, h{"If-Range", `"a"`, "Range", part}, 206},
		{strong, h{"If-Range", `"a"`, "Range", "bytes=100-"}, 416},
		{strong, h{"If-Range", `"b"`, "Range", part}, 200},
		{strong, h{"If-Range", `"b"`, "Range", "bytes=100-"}, 200},
		{strong, h{"If-Range", `W/"a"`, "Range", part}, 200},
		{weak, h{"If-Range", `W/"a"`, "Range", part}, 200},
		{weak, h{"If-Range", `"a"`, "Range", part}, 200},
		{strong, h{"If-Range", `"a", "b"`, "Range", part}, 200},
		{strong, h{"If-Range", `"a"`, "If-Range", `"a"`, "Range", part}, 200},
		{strong, h{"If-Range", `*`, "Range", part}, 200},
		{strong, h{"If-Range", ``, "Range", part}, 200},
		{strong, h{"If-Range", same, "Range", part}, 206},
		{strong, h{"If-Range", after, "Range", part}, 200},
		{strong, h{"If-Range", before, "Range", part}, 200},
		{weak, h{"If-Range", same, "Range", part}, 200}, // the date is weak
		{plain, h{"If-Range", same, "Range", part}, 200},
		{plain, h{"If-Range", `""`, "Range", part}, 200},
	} {
		header := make(http.Header)
		for i := 0; i < len(c.header); i += 2 {
			header.Add(c.header[i], c.header[i+1])
		}
		status, list := Evaluate("GET", header, c.rep)
		t.Log(header, c.rep)
		is.Equal(status, c.want)
		is.Equal(status == 206, len(list) > 0)
		want := c.want
		if want == 206 || want == 416 {
			want = 200
		}
		status, list = Evaluate("HEAD", header, c.rep)
		is.Equal(status, want)
		is.Equal(list, nil)
	}
}

func TestParseTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{`*`}, `{true []}`},
		{[]string{` * `}, `{true []}`},
		// RFC 9110, section 13.1.1
		{[]string{`"xyzzy"`}, `{false ["xyzzy"]}`},
		{[]string{`"xyzzy", "r2d2xxxx", "c3piozzzz"`}, `{false ["xyzzy" "r2d2xxxx" "c3piozzzz"]}`},
		// section 13.1.2
		{[]string{`W/"xyzzy"`}, `{false [W/"xyzzy"]}`},
		{[]string{`W/"xyzzy", W/"r2d2xxxx"`}, `{false [W/"xyzzy" W/"r2d2xxxx"]}`},
		{[]string{`""`}, `{false [""]}`},
		{[]string{`"a,b", ,,"c"`, `"d"`}, `{false ["a,b" "c" "d"]}`},
		{[]string{`"a" "b"`}, `{false ["a"]}`},
		{[]string{`"a", b, "c"`}, `{false ["a"]}`},
		{[]string{`"a", "b`}, `{false ["a"]}`},
		{[]string{`w/"a"`}, `{false []}`},
		{[]string{`W/ "a"`}, `{false []}`},
		{[]string{`"*"`}, `{false ["*"]}`},
		{[]string{`*, "a"`}, `{false []}`},
		{[]string{``}, `{false []}`},
		{nil, `{false []}`},
	} {
		is.Equal(fmt.Sprint(ParseTags(c.lines)), c.want)
	}
}
