package storebench

import (
	"fmt"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/storagetest"
)

// RunExports measures exports in storages with 1,000 and 100,000 of them
// (20,000 with -short).
// The function that open returns stores many new exports at once.
func RunExports(b *testing.B, open func(t testing.TB) (s storagetest.Storage, insert func(list []exports.Export))) {
	source := func(i int) string {
		return fmt.Sprintf("https://cad.example.com/projects/%03d/drawings/sheet-%07d-rev-%d.dwg", i*19%1000, i, i%17)
	}
	many := 100_000
	if testing.Short() {
		many = 20_000
	}
	for _, count := range []int{1_000, many} {
		s, insert := open(b)
		for i := 0; i < count; i += 10_000 {
			var list []exports.Export
			for j := i; j < min(count, i+10_000); j++ {
				list = append(list, newExport(source(j)))
			}
			insert(list)
		}
		e, ctx, added := s.Exports(), b.Context(), count
		middle, err := e.Find(ctx, source(count/2))
		must(b, err)
		after, last := middle[0].ID, middle[0].ID+int64(count/2)-101
		list := func(contains string, after int64) func(int) error {
			return func(int) error {
				_, err := e.List(ctx, exports.Filter{Contains: contains}, exports.Range{After: after, Limit: 100})
				return err
			}
		}
		for _, bench := range []struct {
			name string
			do   func(i int) error
		}{
			{"page/first", list("", 0)},
			{"page/middle", list("", after)},
			{"page/last", list("", last)},
			{"search/all match", list("https://cad.example.com/", 0)},
			{"search/all match, from the middle", list("/drawings/sheet-", after)},
			{"search/1 in 1000", list("projects/042/", 0)},
			{"search/1 URL", list(source(count/3), 0)},
			{"search/1 number", list(fmt.Sprintf("%07d", count/3), 0)},
			{"search/none", list("projects/042/sheet", 0)},
			{"search/short", list("-rev-", 0)},
			{"find", func(i int) error { _, err := e.Find(ctx, source(i*7919%count)); return err }},
			{"get", func(i int) error { _, err := e.Get(ctx, after); return err }},
			{"put/new", func(int) error {
				added++
				_, _, err := e.Put(ctx, newExport(source(added)), exports.PutRule{})
				return err
			}},
			{"put/replace", func(i int) error {
				_, _, err := e.Put(ctx, newExport(source(i*7919%count)), exports.PutRule{})
				return err
			}},
		} {
			b.Run(fmt.Sprint(bench.name, "/", count), func(b *testing.B) {
				i := 0
				for b.Loop() {
					must(b, bench.do(i))
					i++
				}
			})
		}
	}
}
