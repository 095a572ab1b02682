package linear

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/testflag"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/symbols"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each history has this number of concurrent clients and of calls per client.
const clients, calls = 6, 15

// drivers open two handles on one storage, as two processes do.
var drivers = map[string]func(t *testing.T) [2]storagetest.Storage{
	"memory": func(*testing.T) [2]storagetest.Storage {
		db := memory.New()
		return [2]storagetest.Storage{db, db}
	},
	"sqlite": func(t *testing.T) (handles [2]storagetest.Storage) {
		name := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(5000)" +
			"&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		for i := range handles {
			pool, err := sql.Open("sqlite", name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pool.Close() })
			db, err := sqlite.New(pool)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			handles[i] = db
		}
		return handles
	},
	"postgres": func(t *testing.T) (handles [2]storagetest.Storage) {
		dsn := pgtest.Database(t)
		for i := range handles {
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			db, err := postgres.New(pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			handles[i] = db
		}
		return handles
	},
}

// histories returns the number of histories per store.
func histories() int {
	if testflag.Long() {
		return 1000
	}
	return 15
}

func TestDrivers_AreLinearizable(t *testing.T) {
	t.Parallel()
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handles := open(t)
			for range histories() {
				deleteFolders(t, handles[0].Symbols())
				if h := folderHistory(t, handles[0].Symbols(), handles[1].Symbols()); !h.linearizable(t, folderModel) {
					t.Fatalf("no order of calls explains %+v", h.calls)
				}
				deleteKeys(t, handles[0].Keys())
				if h := keyHistory(t, handles[0].Keys(), handles[1].Keys()); !h.linearizable(t, keyModel) {
					t.Fatalf("no order of calls explains %+v", h.calls)
				}
			}
		})
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
			store := &staleFolders{Store: memory.New().Symbols()}
			return folderHistory(t, store).linearizable(t, folderModel)
		},
		"duplicate folder name": func(t *testing.T) bool {
			store := duplicateNames{memory.New().Symbols()}
			return folderHistory(t, store).linearizable(t, folderModel)
		},
		"stale key": func(t *testing.T) bool {
			store := &staleKeys{Store: memory.New().Keys()}
			return keyHistory(t, store).linearizable(t, keyModel)
		},
		"lost update of a key": func(t *testing.T) bool {
			store := lostUpdates{memory.New().Keys()}
			return keyHistory(t, store).linearizable(t, keyModel)
		},
		"constant epoch": func(t *testing.T) bool {
			store := constantEpoch{memory.New().Keys()}
			return keyHistory(t, store).linearizable(t, keyModel)
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

func (s lostUpdates) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	read, err := s.Store.Get(ctx, id)
	if err != nil {
		return keys.Key{}, err
	}
	if err := change(&read); err != nil {
		return keys.Key{}, err
	}
	runtime.Gosched() // let other calls run in between
	return s.Store.Update(ctx, id, func(key *keys.Key) error { *key = read; return nil })
}

// constantEpoch always returns the same epoch.
type constantEpoch struct{ keys.Store }

func (constantEpoch) Changes(context.Context, int64) (keys.Changes, error) {
	return keys.Changes{Epoch: 1}, nil
}
