package httpapi

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// TestBodyCache_KeepsWhatIsUsedOften reads 20 lists often, and 1,000 others in turn.
func TestBodyCache_KeepsWhatIsUsedOften(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	cache := newBodyCache(40 << 10)
	fills := 0
	get := func(id int64, version symbols.Version) {
		body, err := cache.get(bodyKey{versionKey: versionKey{contentsVersion, id}}, version, func() (encodedBody, error) {
			fills++
			return encodedBody{version: version, parts: [][]byte{make([]byte, 1<<10)}}, nil
		})
		is.NoErr(err)
		is.Equal(body.version, version)
		is.True(cache.size <= cache.limit)
	}
	often := func() int64 { return 1 + random.Int64N(20) }
	for range 500 {
		get(often(), 1)
	}
	is.Equal(fills, 20)
	for i := range int64(1000) {
		get(100+i, 1)
		for range 2 {
			get(often(), 1)
		}
	}
	is.True(fills < 20+1000+50)

	// Old uses fade, and new versions replace old ones.
	for range 5000 {
		get(5000+random.Int64N(20), 1)
	}
	fills = 0
	for range 100 {
		get(5000+random.Int64N(20), 2)
	}
	is.Equal(fills, 20)
}

// TestBodyCache_DoesNotReuseChunksInUse reads lists of several chunks from a cache that
// has not enough space for all.
func TestBodyCache_DoesNotReuseChunksInUse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cache := newBodyCache(600 << 10)
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		wg.Go(func() {
			for range 300 {
				id, version := random.Int64N(8), symbols.Version(1+random.IntN(2))
				content := bytes.Repeat([]byte{byte(id), byte(version)}, 50_000+int(id)*5000)
				body, err := cache.get(bodyKey{versionKey: versionKey{contentsVersion, id}}, version, func() (encodedBody, error) {
					return encodedBody{version: version, parts: [][]byte{content[:10], content[10:70_000], nil, content[70_000:]}}, nil
				})
				is.NoErr(err)
				for range 2 {
					if !bytes.Equal(bytes.Join(body.parts, nil), content) {
						t.Errorf("the body of list %d at version %d has the content of another one", id, version)
						return
					}
				}
				cache.release(body)
			}
		})
	}
	wg.Wait()
	is.True(len(cache.entries) > 2)
	for _, element := range cache.entries {
		is.Equal(*element.Value.(cacheEntry).users, 1)
	}
}

// TestReleaseBody_KeepsChunksOfInterruptedStream: the server may still read them.
func TestReleaseBody_KeepsChunksOfInterruptedStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		a := &API{bodies: newBodyCache(1 << 20)}
		key := bodyKey{versionKey: versionKey{contentsVersion, 1}}
		a.bodies.put(key, encodedBody{version: 1, parts: [][]byte{make([]byte, 100_000)}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		for _, major := range []int{1, 2} {
			body, _ := a.bodies.lookup(key, 1)
			is.Equal(*body.users, 2)
			r.ProtoMajor = major
			a.releaseBody(r, body)
			is.Equal(*body.users, major)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			is.Equal(*body.users, 1)
		}
	})
}
