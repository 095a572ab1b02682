package httpapi

import (
	"math/rand/v2"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// TestBodyCache_KeepsWhatIsUsedOften reads 20 lists often, and 1,000 others in turn.
func TestBodyCache_KeepsWhatIsUsedOften(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	cache := newBodyCache(60 << 10)
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
