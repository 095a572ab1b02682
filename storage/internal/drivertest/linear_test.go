package drivertest

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// Each history has this number of concurrent clients and of calls per client.
const clients, calls = 6, 15

// TestDrivers_AreLinearizable records concurrent calls of two handles, as two processes
// have: some order of the calls, one at a time, must explain all results.
func TestDrivers_AreLinearizable(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) { testLinearizable(t, db.migrated(), db.connect()) })
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		db := memory.New()
		testLinearizable(t, db, db)
	})
}

func testLinearizable(t *testing.T, first, second storagetest.Storage) {
	for range testflag.Rounds(4, 15, 1000) {
		deleteFolders(t, first.Symbols())
		if h := folderHistory(t, first.Symbols(), second.Symbols()); !h.linearizable(t, folderModel) {
			t.Fatalf("no order of calls explains %+v", h.calls)
		}
		deleteKeys(t, first.Keys())
		if h := keyHistory(t, first.Keys(), second.Keys()); !h.linearizable(t, keyModel) {
			t.Fatalf("no order of calls explains %+v", h.calls)
		}
	}
}

func folderHistory(t testing.TB, handles ...symbols.Store) *history {
	return run(clients, calls, func(h *history, client, _ int) {
		randomFolderCall(t, h, client, handles[client%len(handles)])
	})
}

func keyHistory(t testing.TB, handles ...keys.Store) *history {
	return run(clients, calls, func(h *history, client, n int) {
		randomKeyCall(t, h, client, n, handles[client%len(handles)])
	})
}

// TestModels_DetectFaultyStores checks that the models reject stores that violate
// the contract.
func TestModels_DetectFaultyStores(t *testing.T) {
	t.Parallel()
	for name, linearizable := range map[string]func(t *testing.T) bool{
		"stale folder": func(t *testing.T) bool {
			return folderHistory(t, &staleFolders{Store: memory.New().Symbols()}).linearizable(t, folderModel)
		},
		"duplicate folder name": func(t *testing.T) bool {
			return folderHistory(t, duplicateNames{memory.New().Symbols()}).linearizable(t, folderModel)
		},
		"stale key": func(t *testing.T) bool {
			return keyHistory(t, &staleKeys{Store: memory.New().Keys()}).linearizable(t, keyModel)
		},
		"lost update of a key": func(t *testing.T) bool {
			return keyHistory(t, lostUpdates{memory.New().Keys()}).linearizable(t, keyModel)
		},
		"constant epoch": func(t *testing.T) bool {
			return keyHistory(t, constantEpoch{memory.New().Keys()}).linearizable(t, keyModel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxHistories = 10_000 // on a busy machine, few calls overlap
			for n := range maxHistories {
				if !linearizable(t) {
					t.Logf("detected in history %d", n+1)
					return
				}
			}
			t.Errorf("not detected in %d histories", maxHistories)
		})
	}
}

// staleFolders caches folders without invalidation.
type staleFolders struct {
	symbols.Store
	read sync.Map
}

func (s *staleFolders) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	if folder, ok := s.read.Load(id); ok {
		return folder.(symbols.Folder), nil
	}
	folder, err := s.Store.GetFolder(ctx, id)
	if err == nil {
		s.read.Store(id, folder)
	}
	return folder, err
}

// duplicateNames reports success although a name is taken.
type duplicateNames struct{ symbols.Store }

func (s duplicateNames) UpdateFolder(ctx context.Context, id int64, change func(*symbols.Folder) error) (symbols.Folder, error) {
	var changed symbols.Folder
	folder, err := s.Store.UpdateFolder(ctx, id, func(folder *symbols.Folder) error {
		err := change(folder)
		changed = *folder
		return err
	})
	if err == symbols.ErrFolderNameTaken {
		return changed, nil
	}
	return folder, err
}

// staleKeys caches keys without invalidation.
type staleKeys struct {
	keys.Store
	found sync.Map
}

func (s *staleKeys) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if key, ok := s.found.Load(digest); ok {
		return key.(keys.Key), nil
	}
	key, err := s.Store.Find(ctx, digest)
	if err == nil {
		s.found.Store(digest, key)
	}
	return key, err
}

// lostUpdates reads and writes a key in separate transactions.
type lostUpdates struct{ keys.Store }

func (s lostUpdates) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	var list []keys.Key
	for _, id := range ids {
		if read, err := s.Store.Get(ctx, id); err == nil {
			list = append(list, read)
		}
	}
	if err := change(list); err != nil {
		return nil, err
	}
	runtime.Gosched() // let other calls run in between
	return s.Store.Update(ctx, ids, func(current []keys.Key) error { copy(current, list); return nil })
}

// constantEpoch always returns the same epoch.
type constantEpoch struct{ keys.Store }

func (constantEpoch) Changes(context.Context, int64) (keys.Changes, error) {
	return keys.Changes{Epoch: 1}, nil
}

// history is a record of concurrent calls.
type history struct {
	start time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
	ids   []int64 // assigned by the store
}

// record makes a call and records its result, start and end.
func (h *history) record(client int, call any, do func() any) {
	began := time.Since(h.start)
	result := do()
	ended := time.Since(h.start)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: client, Input: call, Output: result, Call: int64(began), Return: int64(ended),
	})
}

// addID records an id that the store has assigned.
func (h *history) addID(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// randomID returns one of the last four ids.
func (h *history) randomID() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.ids[max(0, len(h.ids)-4):]
	if len(last) == 0 {
		return 1 << 40 // does not exist
	}
	return last[rand.N(len(last))]
}

// run returns the history of concurrent clients.
func run(clients, calls int, call func(h *history, client, n int)) *history {
	h := &history{start: time.Now()}
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for n := range calls {
				call(h, client, n)
			}
		})
	}
	group.Wait()
	return h
}

// linearizable reports whether some order of the calls, one at a time, explains
// all results.
func (h *history) linearizable(t testing.TB, model porcupine.Model) bool {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, h.calls, 2*time.Minute) {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Fatal("checking the history takes too long")
	}
	return false
}
