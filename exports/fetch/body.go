package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// stream is the body of one answer. Its errors are io.EOF, errStalled, the
// cause of the end of its context, or wrap io.ErrUnexpectedEOF.
type stream struct {
	ctx      context.Context // ending it frees the connection, in the middle of a Read too
	cancel   context.CancelCauseFunc
	response *http.Response
	idle     time.Duration
	timer    *time.Timer
	head     []byte // read by peek
	err      error
}

func newStream(ctx context.Context, cancel context.CancelCauseFunc, response *http.Response, idle time.Duration) *stream {
	s := &stream{ctx: ctx, cancel: cancel, response: response, idle: idle}
	s.timer = time.AfterFunc(idle, func() { cancel(errStalled) })
	s.timer.Stop()
	return s
}

// peek returns nil once there is something to read.
func (s *stream) peek() error {
	head := make([]byte, 512)
	n := 0
	for n == 0 && s.err == nil {
		n, _ = s.Read(head)
	}
	s.head = head[:n]
	if n > 0 {
		return nil
	}
	return s.err
}

func (s *stream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	if len(s.head) > 0 {
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	s.timer.Reset(s.idle)
	n, err := s.response.Body.Read(p)
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

func (s *stream) close() {
	s.timer.Stop()
	s.cancel(os.ErrClosed)
	s.response.Body.Close()
}

// body is a file, read from one stream after another.
type body struct {
	opener    *Opener
	ctx       context.Context
	cancel    context.CancelCauseFunc
	address   *url.URL
	stream    *stream
	offset    int64 // of the next byte
	size      int64 // -1 if unknown
	validator string
	stalls    int   // without enoughProgress between them
	stalledAt int64 // the offset of the last
	err       error
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil && err != io.EOF {
		err = failure(b.ctx, b.address, err)
	}
	b.err = err
	return n, err
}

// read returns no more than the file's size and tells its true end from any
// other: an answer may be longer or shorter than the file.
func (b *body) read(p []byte) (int, error) {
	for {
		room := b.room()
		if room == 0 {
			return 0, io.EOF
		}
		n, err := b.stream.Read(p[:min(int64(len(p)), room)])
		b.offset += int64(n)
		switch {
		case b.opener.exceeds(b.offset):
			return n - 1, errTooLarge
		case n > 0, err == nil:
			return n, nil
		case err == io.EOF && b.size < 0:
			return 0, io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err := b.resume(err); err != nil {
			return 0, err
		}
	}
}

// room is how many bytes may be read: what is left of the file, or one byte
// more than the largest file has.
func (b *body) room() int64 {
	switch {
	case b.size >= 0:
		return b.size - b.offset
	case b.opener.maxBytes > 0:
		return b.opener.maxBytes - b.offset + 1
	}
	return 1 << 62
}

// Close frees the connection unless it can be used again. It may be called
// while Read is.
func (b *body) Close() error {
	b.cancel(os.ErrClosed)
	return nil
}
