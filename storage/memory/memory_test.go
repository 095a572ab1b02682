package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) storagetest.Harness { return storagetest.Harness{Storage: memory.New()} }

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

// withoutLinks is a storage whose store of exports is not a LinkStore.
type withoutLinks struct{ *memory.DB }

func (s withoutLinks) Exports() exports.Store { return struct{ exports.Store }{s.DB.Exports()} }

// TestStorage_WithoutLinks has a driver that implements no optional interface.
func TestStorage_WithoutLinks(t *testing.T) {
	t.Parallel()
	open := func(testing.TB) storagetest.Harness { return storagetest.Harness{Storage: withoutLinks{memory.New()}} }
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}
