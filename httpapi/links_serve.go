package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/ranges"
	"example.com/canvasback/httpapi/internal/stream"
)

// maxRenewals is how often one request may find that a file of its link has
// changed.
const maxRenewals = 3

// serveLink responds with a link, or with ranges of it.
func (e exportEndpoints) serveLink(c *call) error {
	if isFetch(c.r.Header) {
		return errLoop
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	link, err := e.service.FindLink(ctx, c.r.PathValue("token"))
	if err != nil {
		return err
	}
	if err := c.authorizeLink(link.Owner); err != nil {
		return err
	}
	return download(func(c *call) error { return e.sendLink(c, link) })(c)
}

func (e exportEndpoints) sendLink(c *call, link *exports.Link) error {
	watch := c.watchLinkKey(link.Owner)
	defer watch.stop()

	s := &linkSender{endpoints: e, call: c, w: watch, requested: c.r.Header, link: link, start: time.Now()}
	defer s.release()
	renew := c.r.Method == http.MethodGet && link.Outdated()
	var lost error
	for range maxRenewals {
		if renew || lost != nil {
			if err := s.renew(); err != nil {
				return err
			}
		}
		lost = s.send()
		if lost == nil || c.w.status != 0 || !exports.IsLost(lost) || c.disconnected() {
			return lost
		}
		// Nothing has been sent yet, so the client can get a new plan.
	}
	return lost
}

// isFetch reports whether a server of this library requests an exported file (RFC
// 8586, section 2).
func isFetch(header http.Header) bool {
	for _, value := range header.Values("CDN-Loop") {
		for element := range strings.SplitSeq(value, ",") {
			id, _, _ := strings.Cut(element, ";")
			if strings.EqualFold(strings.TrimSpace(id), exports.LoopID) {
				return true
			}
		}
	}
	return false
}

// linkSender responds to one request. It writes the header when the first bytes of
// the body are available.
type linkSender struct {
	endpoints exportEndpoints
	call      *call
	w         *keyWatch
	requested http.Header // without references to a previous plan
	link      *exports.Link
	start     time.Time
	done      func(sent int64) // ends the reservation; nil if there is none
}

// reserve replaces the reservation by one of n bytes, -1 for all.
func (s *linkSender) reserve(n int64) (err error) {
	s.release()
	s.done, err = s.link.Reserve(n)
	return err
}

// release ends the reservation.
func (s *linkSender) release() {
	if s.done != nil {
		s.done(s.w.bytes)
		s.done = nil
	}
}

// renew gives the link a new plan, of which the request gets all. It reserves that
// first, because a renewal sends requests and may wait for them.
func (s *linkSender) renew() error {
	if err := s.reserve(-1); err != nil {
		return err
	}
	link, err := s.link.Renew(s.call.r.Context())
	if err != nil {
		return err
	}
	s.link, s.requested = link, s.requested.Clone()
	s.requested.Del("Range")
	s.requested.Del("If-Range")
	return nil
}

// send responds with the current plan. An error means that nothing has been sent.
func (s *linkSender) send() error {
	if !s.link.Resumable() {
		s.requested = nil // without a validator, no header can identify the content
	}
	status, list := ranges.Evaluate(s.call.r.Method, s.requested, ranges.Representation{
		Size: s.link.Size, ETag: s.link.ETag, Modified: s.link.Modified, ModifiedStrong: s.link.HasStrongModified(),
	})
	switch status {
	case http.StatusPreconditionFailed:
		return errPrecondition
	case http.StatusRequestedRangeNotSatisfiable:
		s.w.Header().Set("Content-Range", ranges.Unsatisfied(s.link.Size))
		return errRange
	case http.StatusNotModified:
		s.setHeader()
		s.w.Header().Del("Content-Disposition")
		s.w.WriteHeader(status)
		return nil
	}
	if s.call.r.Method == http.MethodHead {
		s.setHeader()
		s.setContent(s.link.Size, nil)
		s.w.WriteHeader(http.StatusOK)
		return nil
	}
	length := s.link.Size
	if list != nil {
		length = 0
		for _, part := range list {
			length += part.Length
		}
	}
	if s.done == nil {
		if err := s.reserve(length); err != nil {
			return err
		}
	}
	if len(s.call.touched) == 0 { // a new plan has the same sources
		for _, source := range s.link.Sources {
			s.call.touchExport(source, 0)
		}
	}
	if !s.link.Resumable() {
		return s.download()
	}
	return s.ranges(list)
}

// setHeader sets what all responses have in common.
func (s *linkSender) setHeader() {
	header := s.w.Header()
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Content-Disposition", disposition("attachment", s.link.FileName))
	if !s.link.Resumable() {
		header.Set("Accept-Ranges", "none")
		return
	}
	header.Set("Accept-Ranges", "bytes")
	header.Set("ETag", s.link.ETag)
	if !s.link.Modified.IsZero() {
		header.Set("Last-Modified", s.link.Modified.Format(http.TimeFormat))
	}
}

// contentType returns the Content-Type of the file or the zip.
func (s *linkSender) contentType() string {
	if s.link.Zip {
		return "application/zip"
	}
	return downloadContentType(s.link.Type)
}

// setContent sets what depends on the ranges. A negative size is unknown.
func (s *linkSender) setContent(size int64, multipart *ranges.Multipart) {
	header := s.w.Header()
	header.Set("Content-Type", s.contentType())
	if multipart != nil {
		header.Set("Content-Type", multipart.ContentType())
	}
	if size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
}

// ranges sends parts of a resumable link, all of it if the list is nil.
func (s *linkSender) ranges(list []ranges.Range) error {
	status, size := http.StatusOK, s.link.Size
	parts := []exports.ByteRange{{Length: size}}
	var multipart *ranges.Multipart
	contentRange := ""
	if list != nil {
		status, size, parts = http.StatusPartialContent, list[0].Length, nil
		for _, part := range list {
			parts = append(parts, exports.ByteRange{Offset: part.Start, Length: part.Length})
		}
		if len(list) > 1 {
			multipart = ranges.NewMultipart(list, s.link.Size, s.contentType())
			size = multipart.Length()
		} else {
			contentRange = list[0].ContentRange(s.link.Size)
		}
	}
	ctx, cancel := context.WithCancel(s.call.r.Context())
	defer cancel()
	s.w.onRevoked(cancel)
	reader, err := s.link.Open(ctx, parts...)
	if err != nil {
		return err
	}
	defer reader.Close()
	body := lazyWriter{start: func() *stream.Writer {
		s.setHeader()
		s.setContent(size, multipart)
		if contentRange != "" {
			s.w.Header().Set("Content-Range", contentRange)
		}
		s.w.WriteHeader(status)
		out := s.call.newStream(s.w)
		flushIfSlow(out, s.start)
		return out
	}}
	if multipart == nil {
		err = reader.WriteRange(&body, 0, body.flush)
	} else {
		next := 0
		err = multipart.Write(&body, func(ranges.Range) error {
			next++
			return reader.WriteRange(&body, next-1, body.flush)
		})
	}
	switch {
	case err != nil && body.out == nil:
		return err
	case err != nil:
		s.call.abort(err)
	case body.out == nil: // an empty file
		body.begin()
	}
	body.out.Finish()
	return nil
}

// lazyWriter writes the header of a response before the first byte of its body.
type lazyWriter struct {
	start func() *stream.Writer
	out   *stream.Writer
}

func (w *lazyWriter) begin() {
	if w.out == nil {
		w.out = w.start()
	}
}

// Write implements [io.Writer].
func (w *lazyWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.begin()
	return w.out.Write(p)
}

// ReadFrom implements [io.ReaderFrom]. It reads larger pieces than [io.Copy].
func (w *lazyWriter) ReadFrom(r io.Reader) (n int64, err error) {
	for w.out == nil {
		var first [4 << 10]byte
		m, err := r.Read(first[:])
		n += int64(m)
		if _, err := w.Write(first[:m]); err != nil {
			return n, err
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	m, err := w.out.ReadFrom(r)
	return n + m, err
}

func (w *lazyWriter) flush() error {
	if w.out == nil {
		return nil
	}
	return w.out.Flush()
}

// download sends a link that is not resumable, as the download routes do.
func (s *linkSender) download() error {
	items, err := s.link.Items(s.call.r.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.call.r.Context())
	defer cancel()
	s.w.onRevoked(cancel)
	if s.link.Zip {
		return s.endpoints.sendBatch(s.call, ctx, s.w, items, s.setHeader)
	}
	if items[0].Export == nil {
		return exports.ErrNotFound
	}
	download, err := s.endpoints.service.Open(ctx, *items[0].Export)
	if err != nil {
		return err
	}
	defer download.Close()
	download.ETag = "" // it is weak, or the link would be resumable
	return s.call.sendFile(s.w, download, s.setHeader)
}
