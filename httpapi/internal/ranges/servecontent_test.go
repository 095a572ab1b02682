package ranges

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// evaluate returns the result of Evaluate as text.
func evaluate(header http.Header, rep Representation) string {
	status, list := Evaluate("GET", header, rep)
	result := fmt.Sprint(status)
	for _, r := range list {
		result += " " + r.ContentRange(rep.Size)
	}
	if status == http.StatusRequestedRangeNotSatisfiable {
		result += " " + Unsatisfied(rep.Size)
	}
	return result
}

// serveContent returns the result of [http.ServeContent] in the same form.
func serveContent(t *testing.T, header http.Header, rep Representation) string {
	request := httptest.NewRequest("GET", "/", nil)
	request.Header = header
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "x/y")
	if rep.ETag != "" {
		recorder.Header().Set("ETag", rep.ETag)
	}
	http.ServeContent(recorder, request, "", rep.Modified, bytes.NewReader(make([]byte, rep.Size)))
	result := fmt.Sprint(recorder.Code)
	if text := recorder.Header().Get("Content-Range"); text != "" {
		result += " " + text
	}
	_, params, _ := mime.ParseMediaType(recorder.Header().Get("Content-Type"))
	if params["boundary"] == "" {
		return result
	}
	for reader := multipart.NewReader(recorder.Body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF {
			return result
		}
		is.New(t).NoErr(err)
		result += " " + part.Header.Get("Content-Range")
	}
}

// TestEvaluate_EqualsServeContent compares random requests without the features of
// TestEvaluate_DiffersFromServeContent.
func TestEvaluate_EqualsServeContent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	results := make(map[string]int)
	for range 20_000 {
		rep := Representation{Size: 1 + random.Int64N(30), ETag: pick(`"a"`, `"b"`, `W/"a"`, ""), Modified: modified, ModifiedStrong: true}
		header := make(http.Header)
		if random.IntN(10) > 0 {
			specs := make([]string, 1+random.IntN(4))
			for i := range specs {
				first := random.Int64N(rep.Size + 5)
				specs[i] = pick(
					fmt.Sprintf("%d-%d", first, first+random.Int64N(6)),
					fmt.Sprintf("%d-", first),
					fmt.Sprintf("-%d", first+1),
					"")
			}
			header.Set("Range", "bytes="+strings.Join(specs, pick(",", ", ", " ,\t")))
		}
		for name, values := range map[string][]string{
			"If-Match":            {`"a"`, `"b"`, `W/"a"`, `"b","a"`, `*`, `"a" x`, `x, "a"`},
			"If-None-Match":       {`"a"`, `"b"`, `W/"a"`, `"b", W/"a"`, `*`, `"b" x`, `x, "a"`},
			"If-Range":            {`"a"`, `"b"`, `W/"a"`, same, before, after, "x"},
			"If-Modified-Since":   {same, before, after, "x"},
			"If-Unmodified-Since": {same, before, after, "x"},
		} {
			if random.IntN(4) == 0 {
				header.Set(name, pick(values...))
			}
		}
		if status, _ := Parse(header["Range"], rep.Size); status == http.StatusOK && header.Get("Range") != "bytes=" {
			header.Del("Range") // ranges overlap
		}
		got, want := evaluate(header, rep), serveContent(t, header, rep)
		if got != want {
			t.Fatalf("%v with ETag %s and %d bytes: %s, ServeContent: %s", header, rep.ETag, rep.Size, got, want)
		}
		results[got[:3]]++
	}
	is.New(t).Equal(len(results), 5)
}

// TestEvaluate_DiffersFromServeContent lists why ServeContent is not used, besides
// its lack of control over reading.
func TestEvaluate_DiffersFromServeContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		size          int64
		name, value   string
		want, content string
		reason        string
	}{
		{10, "Range", "items=0-1", "200", "416", "section 14.2: an unknown unit must be ignored"},
		{10, "Range", "Bytes=0-1", "206 bytes 0-1/10", "416", "section 14.1: units are case-insensitive"},
		{10, "Range", "bytes=x", "200", "416", "an invalid header may be ignored or rejected"},
		{10, "Range", "bytes=2-1", "200", "416", "an invalid header may be ignored or rejected"},
		{10, "Range", "bytes=0 - 1", "200", "206 bytes 0-1/10", "the grammar has no such space"},
		{10, "Range", "bytes=-0", "416 bytes */10", "206 bytes 10-9/10", "section 14.1.2: a suffix of 0 is not satisfiable"},
		{10, "Range", "bytes=0-99999999999999999999", "206 bytes 0-9/10", "416", "section 14.1.2: numbers have no limit"},
		{10, "Range", "bytes=0-4,2-6", "200", "206 bytes 0-4/10 bytes 2-6/10", "overlapping ranges may be ignored"},
		{20, "Range", "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8", "200", "206", "many ranges may be ignored"},
		{0, "Range", "bytes=-1", "200", "206 bytes 0--1/0", "no Content-Range describes an empty representation"},
		{10, "If-Match", "", "412", "200", "an empty list matches nothing"},
		{10, "If-None-Match", `"b", *`, "200", "304", "the grammar has * alone only"},
	} {
		t.Log(c.name, c.value, c.reason)
		rep := Representation{Size: c.size, ETag: `"a"`}
		header := http.Header{c.name: {c.value}}
		is.Equal(evaluate(header, rep), c.want)
		is.True(strings.HasPrefix(serveContent(t, header, rep), c.content))
	}
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := bytes.Repeat([]byte("canvasback"), 200)
	list := []Range{{1000, 500}, {0, 1}, {1999, 1}}
	m := NewMultipart(list, int64(len(content)), "application/zip")
	var out bytes.Buffer
	for i, r := range list {
		out.WriteString(m.PartHeader(i))
		out.Write(content[r.Start : r.Start+r.Length])
	}
	out.WriteString(m.End())
	is.Equal(m.Length(), int64(out.Len()))

	mediaType, params, err := mime.ParseMediaType(m.ContentType())
	is.NoErr(err)
	is.Equal(mediaType, "multipart/byteranges")
	is.True(len(params["boundary"]) >= 20 && len(params["boundary"]) <= 70) // RFC 2046, section 5.1.1
	reader := multipart.NewReader(&out, params["boundary"])
	for _, r := range list {
		part, err := reader.NextRawPart()
		is.NoErr(err)
		is.Equal(part.Header.Get("Content-Type"), "application/zip")
		is.Equal(part.Header.Get("Content-Range"), r.ContentRange(2000))
		is.Equal(len(part.Header), 2)
		body, err := io.ReadAll(part)
		is.NoErr(err)
		is.True(bytes.Equal(body, content[r.Start:r.Start+r.Length]))
	}
	_, err = reader.NextRawPart()
	is.Equal(err, io.EOF)

	is.True(NewMultipart(list, 2000, "x/y").ContentType() != m.ContentType())
}
