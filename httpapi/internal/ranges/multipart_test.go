package ranges

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"testing"

	"github.com/matryer/is"
)

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
