package fetch

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

// Open implements [exports.Opener]. Its error also wraps that of ctx if ctx
// has ended, and its text is for a log: it names addresses, though not the
// values of queries.
//
// A Read of the file's Body that loses the file returns an error of the same
// kind. It wraps [io.ErrUnexpectedEOF] if the file broke off and
// [exports.ErrTimeout] if nothing came for the idle time. A file that came
// without a length, and without chunks, ends where its connection is closed.
func (o *Opener) Open(ctx context.Context, address *url.URL) (*exports.File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s, err := o.try(ctx, address, http.Header{}, o.acceptWhole)
	if err != nil {
		err = failure(ctx, address, err)
		cancel(err)
		return nil, err
	}
	header := s.response.Header
	size := s.response.ContentLength
	etag := entityTag(header.Get("ETag"))
	kept := *address
	b := &body{opener: o, ctx: ctx, cancel: cancel, address: &kept, stream: s, size: size}
	if !strings.HasPrefix(etag, "W/") {
		b.validator = etag
	}
	return &exports.File{
		Body:     b,
		Size:     size,
		Type:     header.Get("Content-Type"),
		Name:     fileName(header.Get("Content-Disposition")),
		Modified: httpTime(header.Get("Last-Modified")),
		ETag:     etag,
	}, nil
}

// acceptWhole accepts a whole file.
func (o *Opener) acceptWhole(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return newStatusError(response)
	}
	if o.exceeds(response.ContentLength) {
		return errTooLarge
	}
	return checkCoding(response)
}

// exceeds reports whether a file has too many bytes.
func (o *Opener) exceeds(size int64) bool {
	return o.maxBytes > 0 && size > o.maxBytes
}

// checkCoding refuses a content coding: none was accepted by the request, and
// decoded the file would have another length than the answer says.
func checkCoding(response *http.Response) error {
	for _, coding := range response.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return errors.New("the file came with a content coding")
		}
	}
	return nil
}

// fileName is the name that a Content-Disposition proposes, preferring
// filename* (RFC 6266, section 4.3); the empty string if there is none.
func fileName(disposition string) string {
	_, parameters, err := mime.ParseMediaType(disposition)
	if err == nil {
		return parameters["filename"]
	}
	if match := looseName.FindStringSubmatch(disposition); match != nil {
		return match[1]
	}
	return ""
}

// looseName finds the name in what is no media type, most often because it has
// spaces and no quotes around them.
var looseName = regexp.MustCompile(`(?i)\bfilename\s*=\s*"?([^";]*)`)

// entityTag returns a well-formed entity tag (RFC 9110, section 8.8.3), or the
// empty string.
func entityTag(tag string) string {
	opaque, _ := strings.CutPrefix(tag, "W/")
	if len(opaque) < 2 || opaque[0] != '"' || strings.IndexByte(opaque[1:], '"') != len(opaque)-2 {
		return ""
	}
	return tag
}

// httpTime is zero for what is not a date.
func httpTime(text string) time.Time {
	t, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
