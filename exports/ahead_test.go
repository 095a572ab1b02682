package exports_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
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
