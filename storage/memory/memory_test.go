package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) storagetest.Harness {
	return storagetest.Harness{Storage: memory.New()}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

func BenchmarkStorage(b *testing.B) {
	storagetest.RunBenchmarks(b, open)
}

func BenchmarkExports(b *testing.B) {
	storagetest.RunExportBenchmarks(b, func(t testing.TB) (storagetest.Storage, func([]exports.Export)) {
		db := memory.New()
		return db, func(list []exports.Export) {
			for _, export := range list {
				if _, _, err := db.Exports().Put(t.Context(), export, exports.PutRule{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
