package exports_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/ziptest"
)

// The test is not parallel, because it measures the heap.
func TestBatch_MemoryDoesNotGrowWithFiles(t *testing.T) {
	const content = 80 << 20 // of all files
	for _, size := range []int{300 << 10, 1 << 20, 1<<20 + 100<<10} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, size known: %t", size, known), func(t *testing.T) {
				is := is.New(t)
				upstream := newFakeUpstream()
				var urls []string
				files := content / size
				for i := range files {
					u := fmt.Sprintf("https://%d.example/%d", i%3, i)
					urls = append(urls, u)
					upstream.handle(u, func(context.Context) (*exports.File, error) {
						file := &exports.File{Body: io.NopCloser(io.LimitReader(strings.NewReader(letters), int64(size))), Size: -1}
						if known {
							file.Size = int64(size)
						}
						return file, nil
					})
				}
				s := newService(upstream, exports.Options{})
				sources := register(t, s, urls...)
				items := must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
				meter := ziptest.NewHeapMeter()
				batch := must(s.OpenBatch(t.Context(), items))(t)
				defer batch.Close()
				is.NoErr(batch.WriteZip(meter, nil))
				if skipped := batch.Skipped(); len(skipped) > 0 {
					t.Fatal(skipped)
				}
				// 16 prefixes, and the buffers in the pool, which it keeps for
				// two collections.
				if took := meter.Growth(); took > 32<<20 {
					t.Errorf("%d files of %d bytes took %d MiB", files, size, took>>20)
				}
			})
		}
	}
}

var letters = strings.Repeat("canvasback", 200_000)
