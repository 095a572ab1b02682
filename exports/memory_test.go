package exports_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/ziptest"
)

// Memory must not grow with the number of files, whether their sizes are known
// and whether they are read to their end ahead of their turn. The test is not
// parallel, because there is one heap for all.
func TestBatch_memoryIsBounded(t *testing.T) {
	const files = 200
	for _, size := range []int{300 << 10, 1 << 20, 1<<20 + 100<<10} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, size known: %t", size, known), func(t *testing.T) {
				o := newOrigin()
				var addresses []string
				for i := range files {
					address := fmt.Sprintf("https://%d.example/%d", i%3, i) // as many hosts as may be used at a time
					addresses = append(addresses, address)
					o.does(address, func(context.Context) (*exports.File, error) {
						file := &exports.File{Body: io.NopCloser(io.LimitReader(strings.NewReader(letters), int64(size))), Size: -1}
						if known {
							file.Size = int64(size)
						}
						return file, nil
					})
				}
				s := service(o, exports.Options{})
				sources := register(t, s, addresses...)
				found, err := s.FindBatch(t.Context(), sources)
				if err != nil {
					t.Fatal(err)
				}
				idle := ziptest.LiveHeap()
				batch, err := s.OpenBatch(t.Context(), found)
				if err != nil {
					t.Fatal(err)
				}
				defer batch.Close()
				meter := &ziptest.HeapMeter{}
				if err := batch.WriteZip(meter); err != nil {
					t.Fatal(err)
				}
				if skipped := batch.Skipped(); len(skipped) > 0 {
					t.Fatal(skipped)
				}
				// 16 files ahead, and what they leave in a pool until the
				// next collection but one.
				if took := int64(meter.Most) - int64(idle); took > 32<<20 {
					t.Errorf("%d files of %d bytes took %d MiB", files, size, took>>20)
				}
			})
		}
	}
}

var letters = strings.Repeat("canvasback", 200_000)
