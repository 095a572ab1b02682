package memory_test

import (
	"testing"

	"go.uber.org/goleak"

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
