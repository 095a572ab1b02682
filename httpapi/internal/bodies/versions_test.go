package bodies

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

// TestVersionLoader_NeverOlderThanRequest changes a version continuously, and checks
// that each request gets one that is not older than the request.
func TestVersionLoader_NeverOlderThanRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var current, reads atomic.Int64
		loader := newVersionLoader(nil)
		loader.read = func(context.Context, versionKey) (symbols.Version, error) {
			reads.Add(1)
			time.Sleep(5 * time.Millisecond) // request to the store
			version := current.Load()
			time.Sleep(5 * time.Millisecond) // response of the store
			return symbols.Version(version), nil
		}
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					current.Add(1)
				}
			}
		}()
		const requests = 1000
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() {
				time.Sleep(time.Duration(i%100) * 700 * time.Microsecond)
				for range 3 {
					before, start := current.Load(), time.Now()
					version, err := loader.get(t.Context(), versionKey{Contents, 7})
					is.NoErr(err)
					if int64(version) < before {
						t.Errorf("version %d is older than %d, the current one before the request", version, before)
					}
					is.True(time.Since(start) <= 20*time.Millisecond) // two reads at most
				}
			})
		}
		wg.Wait()
		close(done)
		is.True(reads.Load() < 30) // of 3,000 requests
		is.Equal(len(loader.calls), 0)
	})
}

func TestVersionLoader_Panic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		loader := newVersionLoader(nil)
		loader.read = func(context.Context, versionKey) (symbols.Version, error) {
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
				_, err := loader.get(t.Context(), versionKey{})
				is.True(err != nil)
			}()
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		is.Equal(panics, 2) // the first read, and the one shared by the others
		is.Equal(failures, 3)
		is.Equal(len(loader.calls), 0)
	})
}
