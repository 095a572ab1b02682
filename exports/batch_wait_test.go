package exports_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// serveSlowly makes a URL a file of zeros that opens after a delay.
func (f *fakeUpstream) serveSlowly(rawURL string, size int, delay time.Duration) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) {
		time.Sleep(delay)
		return &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, size))), Size: int64(size), Validator: fmt.Sprint(size)}, nil
	})
}

// TestBatch_WaitsForSizes has one host, of which 6 files are opened at a time.
func TestBatch_WaitsForSizes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		files        int
		first, other time.Duration
		took         time.Duration
		known        bool
	}{
		"same round trip":            {6, 50 * ms, 55 * ms, 55 * ms, true},
		"second round trip":          {7, 50 * ms, 50 * ms, 56250 * time.Microsecond, false},
		"slow file":                  {2, 400 * ms, time.Second, 450 * ms, false},
		"fast host, three rounds":    {16, 20 * ms, 20 * ms, 60 * ms, true},
		"fast host, one slow file":   {2, 20 * ms, time.Second, 120 * ms, false},
		"more than are prefetched":   {17, ms, ms, ms, false},
		"slow host, nothing missing": {1, time.Second, 0, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				upstream := newFakeUpstream()
				var urls []string
				for i := range c.files {
					u := fmt.Sprintf("https://x.example/%d", i)
					upstream.serveSlowly(u, 100, map[bool]time.Duration{true: c.first, false: c.other}[i == 0])
					urls = append(urls, u)
				}
				s := newService(upstream, exports.Options{})
				sources := register(t, s, urls...)
				start := time.Now()
				batch := must(openBatch(t, s, sources))(t)
				defer batch.Close()
				is.Equal(time.Since(start), c.took)
				is.Equal(batch.Size() > 0, c.known)

				is.NoErr(batch.WriteZip(io.Discard, nil))
				is.NoErr(s.Flush(t.Context()))
			})
		})
	}
}
