package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
)

// stream is the body of one response. The error of Read is io.EOF,
// errIdleTimeout, the cause of the ended ctx, or wraps io.ErrUnexpectedEOF.
type stream struct {
	ctx         context.Context // when it ends, a blocked Read returns
	cancel      context.CancelCauseFunc
	response    *http.Response
	idleTimeout time.Duration
	timer       *time.Timer
	part        io.Reader     // what to read of the response
	content     *bufio.Reader // of the part
	skip        int64         // bytes of the response before the offset of the next Read
	err         error
}

func newStream(ctx context.Context, cancel context.CancelCauseFunc, response *http.Response, idleTimeout time.Duration) *stream {
	s := &stream{ctx: ctx, cancel: cancel, response: response, part: response.Body, idleTimeout: idleTimeout}
	s.content = bufio.NewReaderSize(timedReader{s}, 512)
	s.timer = time.AfterFunc(idleTimeout, func() { cancel(errIdleTimeout) })
	s.timer.Stop()
	return s
}

// start waits for the first byte of the response, if the rest of the file from
// offset to end has any. The argument end is -1 if unknown. Read then begins at
// offset. The error is not io.EOF.
func (s *stream) start(p part, offset, end int64) error {
	if p.length >= 0 {
		s.part = io.LimitReader(s.part, p.length)
	}
	if offset == end {
		if p.length == 1 {
			s.content.Peek(1) // so that the connection is reused
		}
		return nil
	}
	s.skip = offset - p.first
	switch _, err := s.content.Peek(1); {
	case err == io.EOF && end < 0:
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}

func (s *stream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil { // content may have bytes
		return 0, context.Cause(s.ctx)
	}
	if s.skip > 0 && len(p) > 0 {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(s.content, s.skip), make([]byte, min(s.skip, 64<<10)))
		if s.skip -= n; err == nil && s.skip > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
	return s.content.Read(p)
}

// timedReader reads the part of a stream with its idle timeout.
type timedReader struct{ *stream }

func (s timedReader) Read(p []byte) (int, error) {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	if s.err != nil {
		return 0, s.err
	}
	s.timer.Reset(s.idleTimeout)
	n, err := s.part.Read(p)
	s.timer.Stop()
	switch {
	case err == nil, err == io.EOF:
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case !errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	s.err = err
	return n, err
}

// errorCode returns the code in the body of an XML error, as object stores send it,
// or the empty string. It waits at most a second; then the stream must be closed.
func (s *stream) errorCode() string {
	if !strings.Contains(s.response.Header.Get("Content-Type"), "xml") {
		return ""
	}
	timer := time.AfterFunc(time.Second, func() { s.cancel(errIdleTimeout) })
	defer timer.Stop()
	text, _ := io.ReadAll(io.LimitReader(s, 4<<10)) // what has arrived may contain it
	if match := errorCode.FindSubmatch(text); match != nil {
		return string(match[1])
	}
	return ""
}

var errorCode = regexp.MustCompile(`<Code>([A-Za-z0-9]{1,64})</Code>`)

func (s *stream) close() {
	s.timer.Stop()
	s.cancel(os.ErrClosed)
	s.response.Body.Close()
}
