package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

func digestOf(name string) keys.Digest { return sha256.Sum256([]byte(name)) }

// insertKeys returns a statement that inserts keys with the names "from" to "to".
func insertKeys(from, to int) string {
	return fmt.Sprintf(`
		INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
		SELECT n, '', '', sha256(n::text::bytea), true, now(), now()
		FROM generate_series(%d, %d) AS n;`, from, to)
}

// While a change is not committed, neither its epoch nor its digests are visible,
// and later changes wait.
func TestChanges_LogInOrderOfCommits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	store := migrate(t, pool).Keys()
	start := must(store.Changes(t.Context(), 0))(t)
	digests := func() []keys.Digest {
		is.Helper()
		changes := must(store.Changes(t.Context(), start.Epoch))(t)
		is.True(changes.Complete)
		return changes.Digests
	}
	first := begin(t, pool, insertKeys(1, 1))
	is.Equal(len(digests()), 0)
	second := make(chan error)
	go func() { second <- errorOf(pool.Exec(context.WithoutCancel(t.Context()), insertKeys(2, 2))) }()
	eventually(t, 1, waiting(t, pool))
	is.Equal(len(digests()), 0)
	must(first.Exec(t.Context(), insertKeys(3, 3)))(t)
	is.NoErr(first.Commit(t.Context()))
	is.NoErr(<-second)
	is.Equal(digests(), []keys.Digest{digestOf("1"), digestOf("3"), digestOf("2")})
}

// lateChanges is a store whose calls of Changes with a lateContext return when release is closed.
type lateChanges struct {
	symbols.Store
	read, release chan struct{}
}

type lateContext struct{}

func (s lateChanges) Changes(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	set, err := s.Store.Changes(ctx, since)
	if ctx.Value(lateContext{}) != nil {
		close(s.read)
		<-s.release
	}
	return set, err
}

// TestFollow_JoinMissesNothing has a follower that joins while others are notified of a change. The
// position stays, because a transaction runs.
func TestFollow_JoinMissesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := connect(t, pgtest.Database(t))
	store := lateChanges{migrate(t, pool).Symbols(), make(chan struct{}), make(chan struct{})}
	service := must(symbols.NewService(store, nil))(t)
	folder := must(service.CreateFolder(ctx, "a"))(t)
	begin(t, pool, `SELECT pg_current_xact_id()`)
	first := must(service.Follow(ctx, ""))(t)
	defer first.Close()
	id := first.Take().ID
	joined := make(chan *symbols.Follower)
	go func() { joined <- must(service.Follow(context.WithValue(ctx, lateContext{}, true), id))(t) }()
	<-store.read
	must(service.CreateSymbol(ctx, folder.ID, symbols.NewSymbol{Name: "n", Type: "text/plain", Data: "x"}))(t)
	waitFor := func(f *symbols.Follower) {
		for notified := false; !notified; {
			select {
			case <-f.Changes():
				notified = slices.Contains(f.Take().FolderIDs, folder.ID)
			case <-time.After(20 * time.Second):
				t.Fatal("the follower is not notified")
			}
		}
	}
	waitFor(first)
	close(store.release)
	second := <-joined
	defer second.Close()
	waitFor(second)
}

// TestChanges_AfterRestore restores a dump in place.
func TestChanges_AfterRestore(t *testing.T) {
	t.Parallel()
	is, ctx := is.New(t), t.Context()
	dsn := pgtest.Start(t).DSN() // of the version of pg_dump
	store := migrate(t, connect(t, dsn)).Symbols()
	folder := must(store.InsertFolder(ctx, symbols.Folder{Name: "a"}))(t)
	dump := t.TempDir() + "/dump"
	run := func(program string, args ...string) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(program + " is not installed")
		}
		output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		t.Logf("%s", output)
		is.NoErr(err)
	}
	run("pg_dump", "--format=custom", "--file="+dump, dsn)
	must(store.InsertSymbols(ctx, folder.ID, []symbols.Symbol{{Name: "lost", Type: "text/plain", Data: "x"}}))(t)
	before := must(store.Changes(ctx, symbols.Position{}))(t)
	run("pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+dsn, dump)
	is.True(must(store.Changes(ctx, before.Position))(t).History != before.History)
}

// TestChanges_AfterCrash has transactions whose ids are given to others after a crash.
func TestChanges_AfterCrash(t *testing.T) {
	t.Parallel()
	is, ctx := is.New(t), t.Context()
	pool := connect(t, pgtest.Start(t).DSN())
	store := migrate(t, pool).Symbols()
	folder := must(store.InsertFolder(ctx, symbols.Folder{Name: "a"}))(t)
	for range 200 { // not flushed
		tx := must(pool.Begin(ctx))(t)
		must(tx.Exec(ctx, `SELECT pg_current_xact_id()`))(t)
		is.NoErr(tx.Rollback(ctx))
	}
	before := must(store.Changes(ctx, symbols.Position{}))(t)
	var pid, version int
	is.NoErr(pool.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_version_num')::int`).Scan(&pid, &version))
	is.NoErr(must(os.FindProcess(pid))(t).Kill())
	list := []symbols.Symbol{{Name: "n", Type: "text/plain", Data: "x"}}
	_, err := store.InsertSymbols(ctx, folder.ID, list)
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); _, err = store.InsertSymbols(ctx, folder.ID, list) {
		time.Sleep(100 * time.Millisecond)
		pool.Reset()
	}
	is.NoErr(err)
	for range 300 {
		must(pool.Exec(ctx, `SELECT pg_current_xact_id()`))(t)
	}
	after := must(store.Changes(ctx, before.Position))(t)
	is.True(version < 150000 || after.History != before.History || len(after.Changed) > 0)
}

// TestAssignTenant_FolderIsRestored deletes and restores a folder while AssignTenant waits for
// another one.
func TestAssignTenant_FolderIsRestored(t *testing.T) {
	t.Parallel()
	is, ctx := is.New(t), t.Context()
	pool := connect(t, pgtest.Database(t))
	service := must(symbols.NewService(migrate(t, pool).Symbols(), nil))(t)
	must(service.CreateFolder(ctx, "first"))(t)
	second := must(service.CreateFolder(ctx, "second"))(t)
	tx := begin(t, pool, `SELECT FROM canvasback_folders WHERE name = 'first' FOR UPDATE`)
	assigned := make(chan error, 1)
	go func() { assigned <- service.AssignTenant(ctx, "other") }()
	time.Sleep(300 * time.Millisecond)
	restored := make(chan error, 1)
	go func() {
		err := service.DeleteFolder(ctx, second.ID, symbols.Any, 0)
		if trash, listErr := service.ListTrash(ctx, symbols.Range{}); err == nil && listErr == nil && len(trash.Entries) > 0 {
			_, err = service.Restore(ctx, trash.Entries[0].ID, nil, 0)
		}
		restored <- err
	}()
	time.Sleep(500 * time.Millisecond)
	is.NoErr(tx.Rollback(ctx))
	is.NoErr(<-assigned)
	<-restored // whether before or after
	is.Equal(len(must(service.ListFolders(ctx, symbols.Range{}))(t).Folders), 0)
}
