package httpapi

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// TestVersionLoader_NeverOlderThanRequest changes a version all the time
// while many ask for it, and compares what they get with what it was when they
// asked.
func TestVersionLoader_NeverOlderThanRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var present, reads atomic.Int64
		v := newVersionLoader(nil)
		v.read = func(context.Context, versionKey) (symbols.Version, error) {
			reads.Add(1)
			time.Sleep(5 * time.Millisecond) // on the way there
			version := present.Load()
			time.Sleep(5 * time.Millisecond) // on the way back
			return symbols.Version(version), nil
		}
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					present.Add(1)
				}
			}
		}()
		const asked = 1000
		var wg sync.WaitGroup
		for i := range asked {
			wg.Go(func() {
				time.Sleep(time.Duration(i%100) * 700 * time.Microsecond)
				for range 3 {
					before, start := present.Load(), time.Now()
					version, err := v.get(t.Context(), versionKey{contentsVersion, 7})
					is.NoErr(err)
					if int64(version) < before {
						t.Errorf("version %d is older than %d, which there was before", version, before)
					}
					is.True(time.Since(start) <= 20*time.Millisecond) // two reads at most
				}
			})
		}
		wg.Wait()
		close(done)
		is.True(reads.Load() < 30) // and not 3,000
		is.Equal(len(v.calls), 0)
	})
}

func TestVersionLoader_Panic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		v := newVersionLoader(nil)
		v.read = func(context.Context, versionKey) (symbols.Version, error) {
			time.Sleep(time.Second)
			panic("a bug in a driver")
		}
		panics := 0
		failures := 0
		var mu sync.Mutex
		for range 5 {
			go func() {
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					if recover() != nil {
						panics++
					} else {
						failures++
					}
				}()
				_, err := v.get(t.Context(), versionKey{})
				is.True(err != nil)
			}()
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		is.Equal(panics, 2) // of the first one, and of who read for the other four
		is.Equal(failures, 3)
		is.Equal(len(v.calls), 0)
	})
}
