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
