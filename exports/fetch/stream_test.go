package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// The context of a file may end between the head of the answer and its first
// byte: because the client leaves, or because the time to open it is over.
// Nothing from outside can hit that moment every time.
func TestStream_endsBeforeItIsPeeked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	left := errors.New("nobody wants it any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newStream(ctx, cancel, &http.Response{Body: io.NopCloser(strings.NewReader("content"))}, time.Minute)
	defer s.close()
	cancel(left)
	peeked := make(chan error, 1)
	go func() { peeked <- s.peek() }()
	select {
	case err := <-peeked:
		is.True(errors.Is(err, left))
	case <-time.After(time.Second):
		t.Fatal("peek has not returned within a second")
	}
}
