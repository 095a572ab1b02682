package ranges

import "crypto/rand"

// Multipart is what surrounds the ranges in a response with several of them (RFC 9110,
// section 14.6).
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
	length := int64(len(m.End()))
	for i, r := range m.list {
		length += int64(len(m.PartHeader(i))) + r.Length
	}
	return length
}

// PartHeader returns what precedes the bytes of the range with an index.
func (m *Multipart) PartHeader(i int) string {
	separator := "\r\n--"
	if i == 0 {
		separator = "--"
	}
	return separator + m.boundary +
		"\r\nContent-Type: " + m.contentType +
		"\r\nContent-Range: " + m.list[i].ContentRange(m.size) + "\r\n\r\n"
}

// End returns what follows the bytes of the last range.
func (m *Multipart) End() string { return "\r\n--" + m.boundary + "--\r\n" }
