package ranges

import (
	"crypto/rand"
	"io"
)

// Multipart is the body of a response with several ranges (RFC 9110, section
// 14.6).
type Multipart struct {
	list        []Range
	size        int64 // of the representation
	contentType string
	boundary    string
}

// NewMultipart returns the body for ranges of a representation of size bytes and
// the given Content-Type. It has a random boundary.
func NewMultipart(list []Range, size int64, contentType string) *Multipart {
	return &Multipart{list, size, contentType, rand.Text()}
}

// ContentType returns the Content-Type of the response.
func (m *Multipart) ContentType() string { return "multipart/byteranges; boundary=" + m.boundary }

// Length returns the Content-Length of the response.
func (m *Multipart) Length() int64 {
	length := int64(len(m.end()))
	for i, r := range m.list {
		length += int64(len(m.partHeader(i))) + r.Length
	}
	return length
}

// Write writes the body. It calls writeRange for the bytes of each range, and
// returns the first error.
func (m *Multipart) Write(w io.Writer, writeRange func(Range) error) error {
	for i, r := range m.list {
		if _, err := io.WriteString(w, m.partHeader(i)); err != nil {
			return err
		}
		if err := writeRange(r); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, m.end())
	return err
}

// partHeader returns what precedes the bytes of a range.
func (m *Multipart) partHeader(i int) string {
	separator := "\r\n--"
	if i == 0 {
		separator = "--"
	}
	return separator + m.boundary +
		"\r\nContent-Type: " + m.contentType +
		"\r\nContent-Range: " + m.list[i].ContentRange(m.size) + "\r\n\r\n"
}

func (m *Multipart) end() string { return "\r\n--" + m.boundary + "--\r\n" }
