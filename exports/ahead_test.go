package exports_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

func TestBatch_deadHostsDoNotHoldItUpForEachOfThem(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{OpenTimeout: 20 * time.Millisecond})
	var asked atomic.Int64
	var addresses []string
	for i := range 300 {
		address := fmt.Sprintf("https://dead-%d.example/", i)
		o.does(address, func(ctx context.Context) (*exports.File, error) {
			asked.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		addresses = append(addresses, address)
	}
	_, _, err := download(t, s, register(t, s, addresses...))
	var failed *exports.BatchError
	is.True(errors.As(err, &failed) && errors.Is(err, exports.ErrTimeout))
	is.Equal(len(failed.Skipped), 300)
	is.True(asked.Load() < 60)
}

// The clock is a function of the host, and asked where nobody else could
// recover its panic.
func TestBatch_panicOfTheClock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	o.has("https://files.example/a", []byte("a"))
	var broken atomic.Bool
	asked := 0
	s := service(o, exports.Options{Now: func() time.Time {
		if broken.Load() {
			if asked++; asked > 1 { // after the batch has begun
				panic("a bug in the clock")
			}
		}
		return time.Now()
	}})
	sources := register(t, s, "https://files.example/a")
	broken.Store(true)
	_, _, err := download(t, s, sources)
	is.True(errors.Is(err, exports.ErrFailed))
}

func TestBatch_deadHostDoesNotHoldItUpForEachOfItsFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	const timeout = 200 * time.Millisecond
	s := service(o, exports.Options{OpenTimeout: timeout})
	var asked atomic.Int64
	var addresses []string
	for i := range 200 {
		address := fmt.Sprintf("https://dead.example/%d", i)
		o.does(address, func(ctx context.Context) (*exports.File, error) {
			asked.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		addresses = append(addresses, address)
	}
	o.has("https://alive.example/ok", []byte("ok"))
	sources := register(t, s, append(addresses, "https://alive.example/ok")...)
	archive, skipped, err := download(t, s, sources)
	is.NoErr(err)
	is.Equal(len(skipped), 200)
	names, _ := entries(t, archive)
	is.Equal(names, []string{"ok", "manifest.json"})
	is.True(asked.Load() < 30) // and not 200 times the limit
	_, _, err = download(t, s, sources[:200])
	is.True(errors.Is(err, exports.ErrTimeout))
}

// What a connection still holds of a file that its origin has given up can be
// read, and then the file is lost; so it is opened anew after a long wait.
func TestBatch_fileGivenUpWhileItWaited(t *testing.T) {
	t.Parallel()
	for tag, reopened := range map[string]bool{"": true, `W/"1"`: true, `"1"`: false} {
		is := is.New(t)
		o := newOrigin()
		s := service(o, exports.Options{})
		s.SetOriginPatience(50 * time.Millisecond)
		content := bytes.Repeat([]byte("canvasback "), 300_000)
		var opened atomic.Int64
		o.does("https://x.example/waits", func(context.Context) (*exports.File, error) {
			var body io.Reader = bytes.NewReader(content)
			if opened.Add(1) == 1 && reopened {
				body = io.MultiReader(io.LimitReader(body, 2<<20), iotest.ErrReader(io.ErrUnexpectedEOF))
			}
			return &exports.File{Body: io.NopCloser(body), Size: int64(len(content)), ETag: tag}, nil
		})
		o.does("https://x.example/first", func(context.Context) (*exports.File, error) {
			time.Sleep(500 * time.Millisecond)
			return &exports.File{Body: io.NopCloser(strings.NewReader("first")), Size: 5}, nil
		})
		archive, skipped, err := download(t, s, register(t, s, "https://x.example/first", "https://x.example/waits"))
		is.NoErr(err)
		is.Equal(len(skipped), 0)
		_, contents := entries(t, archive)
		is.True(contents["waits"] == string(content))
		is.Equal(opened.Load() == 2, reopened) // one that can be resumed is not
	}
}

// drip is an endless file, a byte at a time.
type drip struct{}

func (drip) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	p[0] = 'x'
	return 1, nil
}

func TestBatch_beginsThoughItsFirstFileDrips(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{OpenTimeout: 100 * time.Millisecond})
	o.does("https://x.example/drips", func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(drip{}), Size: -1}, nil
	})
	found, err := s.FindBatch(t.Context(), register(t, s, "https://x.example/drips"))
	is.NoErr(err)
	start := time.Now()
	batch, err := s.OpenBatch(t.Context(), found)
	is.NoErr(err)
	is.NoErr(batch.Close())
	is.True(time.Since(start) < time.Minute) // a head of 1 MiB would take many
}

func TestBatch_hostThatFailsSlowlyIsGivenUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{})
	var asked atomic.Int64
	var addresses []string
	for i := range 100 {
		address := fmt.Sprintf("https://busy.example/%d", i)
		o.does(address, func(context.Context) (*exports.File, error) {
			asked.Add(1)
			time.Sleep(1100 * time.Millisecond)
			return nil, exports.ErrFailed
		})
		addresses = append(addresses, address)
	}
	_, _, err := download(t, s, register(t, s, addresses...))
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(asked.Load() < 30)
}
