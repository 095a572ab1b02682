// Package ranges evaluates conditional requests and range requests by RFC 9110,
// sections 13 and 14. It does no I/O.
package ranges

import (
	"crypto/rand"
	"fmt"
)

// Range is a part of a representation. Its Length is positive.
type Range struct{ Start, Length int64 }

// ContentRange returns the value of the header Content-Range for a representation
// of size bytes.
func (r Range) ContentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.Start, r.Start+r.Length-1, size)
}

// Unsatisfied returns the value of the header Content-Range of status 416.
func Unsatisfied(size int64) string { return fmt.Sprintf("bytes */%d", size) }

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
