package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// The context of a file may end between the response header and the first byte:
// the client leaves, or the time to open the file is over. Only an internal test
// hits that moment every time.
func TestStream_PeekAfterContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if peek blocks
		is := is.New(t)
		cause := errors.New("client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStream(ctx, cancel, &http.Response{Body: io.NopCloser(strings.NewReader("content"))}, time.Minute)
		defer s.close()
		cancel(cause)
		is.True(errors.Is(s.peek(), cause))
	})
}

// countingReader counts the calls of Read.
type countingReader struct {
	io.Reader
	reads int
}

func (r *countingReader) Read(p []byte) (int, error) {
	r.reads++
	return r.Reader.Read(p)
}

// An origin without ranges sends all that precedes the range.
func TestStream_ShortReadDiscardsInLargeReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const size = 4 << 20
	ctx, cancel := context.WithCancelCause(t.Context())
	content := &countingReader{Reader: strings.NewReader(strings.Repeat(" ", size-1) + "x")}
	s := newStream(ctx, cancel, &http.Response{Body: io.NopCloser(content)}, time.Minute)
	defer s.close()
	is.NoErr(s.start(part{length: size, size: size}, size-1, size))
	p := make([]byte, 1)
	n, err := s.Read(p)
	is.NoErr(err)
	is.Equal(string(p[:n]), "x")
	is.True(content.reads < 100)
}
