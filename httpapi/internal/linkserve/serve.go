// Package linkserve responds to requests for download links: conditions and ranges by
// RFC 9110, sections 13 and 14, and the end of a response when its key is revoked. What
// a link contains, and when its plan is renewed, is decided by package exports.
//
// These hold for each response:
//
//   - Its header and its ranges are of one state of the link. If that turns out to be
//     outdated before the first byte, the response is of the next state and complete.
//   - The header is written when the first bytes of the content are available. Until
//     then an error is returned with nothing written.
//   - Before each write the key of the link is accepted, and a blocked write is
//     interrupted within 200 ms after this process stops accepting the key.
package linkserve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/ranges"
	"example.com/canvasback/httpapi/internal/stream"
)

var (
	ErrPrecondition  = errors.New("the file has changed in the meantime")
	ErrUnsatisfiable = errors.New("range is not satisfiable")
)

// Options are what the API knows of a request. All fields are required.
type Options struct {
	// CheckKey returns [ErrRevoked] if the key of the link is not accepted any more, and
	// [exports.ErrLinkNotFound] if it has another tenant. Another error means that the
	// store is unavailable. A response waits for the store, as long as StoreTimeout after
	// the first such error.
	CheckKey     func() error
	StoreTimeout time.Duration

	// Describe sets the Content-Type and the Content-Disposition of a link.
	Describe func(header http.Header, l *exports.Link)

	// OnContent is called before the content of the link is read, for each of its
	// states.
	OnContent func(l *exports.Link)

	// NewStream returns a Writer of the body of w, whose header is written.
	NewStream func(w http.ResponseWriter) *stream.Writer
}

// Serve responds to a GET or HEAD request with a link, or with ranges of it. If the
// header is written, an error means that the response must be aborted. Serve also
// returns the items that a zip leaves out, as [exports.Link.Serve] does.
func Serve(w http.ResponseWriter, r *http.Request, l *exports.Link, o Options) (skipped []exports.Skipped, err error) {
	out := &response{Options: o, w: w, r: r, tag: l.ETag}
	if r.Method == http.MethodHead {
		_, err := out.Select(l)
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watch := watchKey(w, r, o, cancel)
	defer watch.stop()
	out.w = watch
	skipped, err = l.Serve(ctx, out)
	if err == nil {
		err = out.finish()
	}
	return skipped, err
}

// response is an [exports.LinkWriter].
type response struct {
	Options
	*stream.Writer // of the body; nil until the header is written

	w         http.ResponseWriter
	r         *http.Request
	tag       string            // of the link when it was found
	list      []ranges.Range    // nil for the complete link
	multipart *ranges.Multipart // if there are several ranges
}

// Select evaluates the request for a state of the link. It writes the header of a
// response without content.
func (r *response) Select(l *exports.Link) ([]exports.Section, error) {
	status, list := ranges.Evaluate(r.r.Method, r.conditions(l), ranges.Representation{
		Size: l.Size, ETag: l.ETag, Modified: l.Modified, ModifiedStrong: l.ModifiedStrong,
	})
	switch {
	case status == http.StatusPreconditionFailed:
		return nil, ErrPrecondition
	case status == http.StatusRequestedRangeNotSatisfiable:
		r.w.Header().Set("Content-Range", ranges.Unsatisfied(l.Size))
		return nil, ErrUnsatisfiable
	case status == http.StatusNotModified, r.r.Method == http.MethodHead:
		header := r.setHeader(l)
		if status == http.StatusNotModified {
			for _, name := range []string{"Content-Disposition", "Content-Type", "Content-Length"} {
				header.Del(name) // net/http removes the last two over HTTP/1 only
			}
		}
		r.w.WriteHeader(status)
		return nil, nil
	}
	r.OnContent(l)
	r.list = list
	if list == nil {
		return []exports.Section{{Length: l.Size}}, nil
	}
	sections := make([]exports.Section, len(list))
	for i, part := range list {
		sections[i] = exports.Section{Offset: part.Start, Length: part.Length}
	}
	return sections, nil
}

// conditions returns the header of the request without what cannot refer to l: without
// a validator, no header can identify the content, and ranges are of the state in which
// the link was found.
func (r *response) conditions(l *exports.Link) http.Header {
	switch l.ETag {
	case "":
		return nil
	case r.tag:
		return r.r.Header
	}
	header := r.r.Header.Clone()
	header.Del("Range")
	return header
}

func (r *response) setHeader(l *exports.Link) http.Header {
	header := r.w.Header()
	r.Describe(header, l)
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Accept-Ranges", "none")
	if l.ETag != "" {
		header.Set("Accept-Ranges", "bytes")
		header.Set("ETag", l.ETag)
	}
	if !l.Modified.IsZero() && l.Modified.Before(time.Now()) { // RFC 9110, section 8.8.2.1
		header.Set("Last-Modified", l.Modified.UTC().Format(http.TimeFormat))
	}
	if l.Size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(l.Size, 10))
	}
	return header
}

// Begin writes the header of the response, or of a further part of it.
func (r *response) Begin(l *exports.Link, section int) error {
	if section == 0 {
		r.writeHeader(l)
	}
	if r.multipart == nil {
		return nil
	}
	_, err := r.Write([]byte(r.multipart.PartHeader(section)))
	return err
}

func (r *response) writeHeader(l *exports.Link) {
	header, status := r.setHeader(l), http.StatusOK
	if r.list != nil {
		status = http.StatusPartialContent
		length := r.list[0].Length
		if len(r.list) > 1 {
			r.multipart = ranges.NewMultipart(r.list, l.Size, header.Get("Content-Type"))
			length = r.multipart.Length()
			header.Set("Content-Type", r.multipart.ContentType())
		} else {
			header.Set("Content-Range", r.list[0].ContentRange(l.Size))
		}
		header.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	r.w.WriteHeader(status)
	r.Writer = r.NewStream(r.w)
}

func (r *response) finish() error {
	if r.Writer == nil {
		return nil
	}
	if r.multipart != nil {
		if _, err := r.Write([]byte(r.multipart.End())); err != nil {
			return err
		}
	}
	r.Finish()
	return nil
}
