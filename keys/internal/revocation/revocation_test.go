package revocation_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/testflag"
)

const (
	processes  = 4                     // Services with a pool of their own
	keyCount   = 16                    // keys that are changed and checked
	shortLease = 40 * time.Millisecond // allows many changes per second
)

var seedFlag = flag.Uint64("seed", 0, "seed of the revocation test; random if 0")

// TestRevocation_HoldsAcrossProcesses lets several Services share one database,
// as processes do, through a store that is slow, loses responses and freezes.
//
// Once a revoking call has returned, no check that begins on any Service may
// accept the key. Before it is called, none may reject the key.
func TestRevocation_HoldsAcrossProcesses(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		testflag.SkipUnlessThorough(t)
		t.Parallel()
		server := pgtest.Start(t)
		testRevocation(t, server.Restart, postgresPruner(t, server.DSN()), func() keys.Store { return openPostgres(t, server.DSN()) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "keys.db")
		testRevocation(t, func() {}, sqlitePruner(t, file), func() keys.Store { return openSQLite(t, file) })
	})
}

func openPostgres(tb testing.TB, dsn string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool := must(pgxpool.New(tb.Context(), dsn))(tb)
	tb.Cleanup(pool.Close)
	db := must(postgres.New(pool, nil))(tb)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

func openSQLite(tb testing.TB, file string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	is.NoErr(err)
	tb.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(3)
	db := must(sqlite.New(pool))(tb)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

// A pruner discards a random part of the log of changes, so that it no longer
// reaches back to what slow processes have read last.
type pruner func(ctx context.Context) error

const prune = `
	DELETE FROM canvasback_key_changes
	WHERE number <= (SELECT max(number) FROM canvasback_key_changes) - `

func postgresPruner(t *testing.T, dsn string) pruner {
	pool := must(pgxpool.New(t.Context(), dsn))(t)
	t.Cleanup(pool.Close)
	return func(ctx context.Context) error { return errorOf(pool.Exec(ctx, prune+strconv.Itoa(rand.IntN(4)))) }
}

func sqlitePruner(t *testing.T, file string) pruner {
	db := must(sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { db.Close() })
	return func(ctx context.Context) error { return errorOf(db.ExecContext(ctx, prune+strconv.Itoa(rand.IntN(4)))) }
}

// unreliableStore delays and loses responses at random.
type unreliableStore struct {
	keys.Store
	frozen sync.RWMutex // locked while the store is frozen

	mu     sync.Mutex
	random *rand.Rand

	late, lost, incomplete, slowFinds, freezes atomic.Int64
}

// happens returns true n times in a thousand.
func (s *unreliableStore) happens(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(1000) < n
}

// sleep sleeps for a random time below limit.
func (s *unreliableStore) sleep(limit time.Duration) {
	s.mu.Lock()
	d := time.Duration(s.random.Int64N(int64(limit)))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *unreliableStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return s.slowly(func() (keys.Key, error) { return s.Store.Find(ctx, digest) })
}

func (s *unreliableStore) FindID(ctx context.Context, id int64) (keys.Key, error) {
	return s.slowly(func() (keys.Key, error) { return s.Store.FindID(ctx, id) })
}

// slowly calls find, often with a delay before or after it.
func (s *unreliableStore) slowly(find func() (keys.Key, error)) (keys.Key, error) {
	s.frozen.RLock()
	defer s.frozen.RUnlock()
	if s.happens(100) {
		s.sleep(shortLease / 4)
	}
	key, err := find()
	if s.happens(100) {
		s.slowFinds.Add(1)
		s.sleep(3 * shortLease)
	}
	return key, err
}

func (s *unreliableStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	s.frozen.RLock()
	defer s.frozen.RUnlock()
	changes, err := s.Store.Changes(ctx, since)
	if err == nil && !changes.Complete {
		s.incomplete.Add(1)
	}
	switch {
	case s.happens(80):
		s.lost.Add(1)
		return keys.Changes{}, errors.New("response lost")
	case s.happens(150):
		s.late.Add(1)
		s.sleep(shortLease * 3 / 2)
	}
	return changes, err
}

// freeze blocks all calls for a random time.
func (s *unreliableStore) freeze() {
	s.freezes.Add(1)
	s.frozen.Lock()
	defer s.frozen.Unlock()
	s.sleep(4 * shortLease)
}

// switchedStore is one of several databases at a time.
type switchedStore struct {
	keys.Store // for the other calls
	current    atomic.Pointer[keys.Store]
}

func (s *switchedStore) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return (*s.current.Load()).Update(ctx, ids, change)
}

func (s *switchedStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return (*s.current.Load()).Find(ctx, digest)
}

func (s *switchedStore) FindID(ctx context.Context, id int64) (keys.Key, error) {
	return (*s.current.Load()).FindID(ctx, id)
}

func (s *switchedStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	return (*s.current.Load()).Changes(ctx, since)
}

func (s *switchedStore) Shared() bool { return true }

// TestRevocation_FollowsRestoredDatabase replaces a database by a copy of an
// earlier state and back again, while keys change in both.
func TestRevocation_FollowsRestoredDatabase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	random := rand.New(rand.NewPCG(*seedFlag, 1))
	original, restored := filepath.Join(t.TempDir(), "original.db"), filepath.Join(t.TempDir(), "restored.db")
	store := &switchedStore{Store: openSQLite(t, original)}
	store.current.Store(&store.Store)
	options := &keys.Options{Lease: shortLease, Logger: slog.New(slog.DiscardHandler)}
	checker, changer := newService(t, store, options), newService(t, store, options)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { checker.Run(ctx) })

	var issued []keys.Issued
	var tokens []keys.RawKey
	for i := range 8 {
		issued = append(issued, issue(t, changer))
		tokens = append(tokens, signToken(issued[i].Raw, issued[i].Key.ID))
	}
	db := must(sql.Open("sqlite", "file:"+original))(t)
	defer db.Close()
	must(db.ExecContext(ctx, `VACUUM INTO ?`, restored))(t)
	databases := []keys.Store{store.Store, openSQLite(t, restored)}
	for round := range 20 {
		store.current.Store(&databases[round%2])
		time.Sleep(2 * shortLease)
		for range random.IntN(4) {
			i := random.IntN(len(issued))
			active := random.IntN(2) == 0
			must(changer.Update(ctx, issued[i].Key.ID, keys.Fields{Active: &active}))(t)
			if !active {
				is.Equal(verify(t, checker, issued[i].Raw), keys.ErrInactive)
				is.Equal(verify(t, checker, tokens[i]), keys.ErrInactive)
			}
		}
		time.Sleep(2 * shortLease)
		for i, key := range issued {
			stored := must(store.Find(ctx, key.Key.Digest))(t)
			is.Equal(verify(t, checker, key.Raw) == nil, stored.Active)
			is.Equal(verify(t, checker, tokens[i]) == nil, stored.Active)
		}
	}
	is.True(checker.Stats().Hits > 0)
}

// keyState is what checks of a key must return.
type keyState struct {
	valid   []credential // of raw keys that must be accepted, the newest first
	revoked []credential // of raw keys that must be rejected
	version int          // counts the changes of the state
}

// credential is a raw key and a page token that was made with it.
type credential struct{ raw, token string }

func newCredential(issued keys.Issued) credential {
	return credential{string(issued.Raw), string(signToken(issued.Raw, issued.Key.ID))}
}

func (c credential) any(random *rand.Rand) string {
	if random.IntN(2) == 0 {
		return c.token
	}
	return c.raw
}

// trackedKey is a key whose state is known.
type trackedKey struct {
	mu    sync.Mutex
	state keyState
}

// set sets the raw keys that must be accepted and rejected from now on.
func (k *trackedKey) set(valid, revoked []credential) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = keyState{valid, revoked, k.state.version + 1}
}

func (k *trackedKey) load() keyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

func testRevocation(t *testing.T, restart func(), prune pruner, open func() keys.Store) {
	is := is.NewRelaxed(t) // several goroutines use it
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var services []*keys.Service
	var stores []*unreliableStore
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range processes {
		store := &unreliableStore{Store: open(), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		service := newService(t, store, &keys.Options{
			Lease:         shortLease,
			FlushInterval: 50 * time.Millisecond,
			Logger:        slog.New(slog.DiscardHandler),
		})
		running.Go(func() { service.Run(ctx) })
		services, stores = append(services, service), append(stores, store)
	}

	var tracked []*trackedKey
	var changing sync.WaitGroup
	for i := range keyCount {
		k := new(trackedKey)
		tracked = append(tracked, k)
		random := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		c := changer{is: is, random: random, service: func() *keys.Service { return services[random.IntN(processes)] }}
		more := func(changes int) bool {
			return changes < 15 || changes < 80 && (*testflag.Long || cacheHits(services) == 0)
		}
		changing.Go(func() { c.change(ctx, k, more) })
	}

	var counts checkCounts
	checkCtx, stop := context.WithCancel(ctx)
	defer stop()
	var checking sync.WaitGroup
	for i := range 2 * processes {
		random := rand.New(rand.NewPCG(seed, uint64(2000+i)))
		check := func(raw string) (keys.Key, error) { return services[i%processes].VerifyFunc(ctx, raw, requireScope) }
		checking.Go(func() { counts.checkAll(checkCtx, tracked, check, random) })
	}
	checking.Go(func() {
		random := rand.New(rand.NewPCG(seed, 3000))
		for checkCtx.Err() == nil {
			stores[random.IntN(processes)].freeze()
			time.Sleep(5 * shortLease)
			prune(checkCtx) // fails while the server restarts
		}
	})
	changed := make(chan struct{})
	go func() { changing.Wait(); close(changed) }()
	select {
	case <-time.After(time.Second):
		restart() // may call FailNow, so not in another goroutine
	case <-changed:
	}
	<-changed
	stop()
	checking.Wait()

	hits := cacheHits(services)
	var late, lost, incomplete, slow, freezes int64
	for i := range processes {
		late += stores[i].late.Load()
		lost += stores[i].lost.Load()
		incomplete += stores[i].incomplete.Load()
		slow += stores[i].slowFinds.Load()
		freezes += stores[i].freezes.Load()
	}
	t.Logf("hits %d, responses late %d, lost %d, incomplete %d, slow finds %d, freezes %d", hits, late, lost, incomplete, slow, freezes)
	counts.report(t, is)
	// The test proves nothing unless all of these occurred.
	is.True(hits > 0)
	is.True(late > 0)
	is.True(lost > 0)
	is.True(incomplete > processes) // more than the first one of each
	is.True(slow > 0)
	is.True(freezes > 0)
}

type checkCounts struct {
	accepted, acceptedTokens, acceptedPrevious, rejected, acceptedRevoked, rejectedValid atomic.Int64
}

// report fails unless the results were right, and all kinds of them occurred.
func (c *checkCounts) report(t *testing.T, is *is.I) {
	is.Helper()
	t.Logf("accepted %d, tokens %d, previous %d, rejected %d", c.accepted.Load(), c.acceptedTokens.Load(), c.acceptedPrevious.Load(), c.rejected.Load())
	is.Equal(c.acceptedRevoked.Load(), int64(0))
	is.Equal(c.rejectedValid.Load(), int64(0))
	is.True(c.accepted.Load() > 0)
	is.True(c.acceptedTokens.Load() > 0)
	is.True(c.acceptedPrevious.Load() > 0)
	is.True(c.rejected.Load() > 0)
}

// checkAll checks random keys until ctx ends. A check counts only if the state of the
// key is the same before and after it.
func (c *checkCounts) checkAll(ctx context.Context, tracked []*trackedKey, check func(raw string) (keys.Key, error), random *rand.Rand) {
	for ctx.Err() == nil {
		k := tracked[random.IntN(len(tracked))]
		state := k.load()
		unchanged := func() bool { return k.load().version == state.version }
		if len(state.revoked) > 0 {
			_, err := check(state.revoked[random.IntN(len(state.revoked))].any(random))
			switch {
			case err == nil && unchanged():
				c.acceptedRevoked.Add(1)
			case err != nil && !errors.Is(err, keys.ErrUnavailable):
				c.rejected.Add(1)
			}
		}
		if len(state.valid) == 0 {
			time.Sleep(100*time.Microsecond + time.Duration(random.Int64N(1000)))
			continue
		}
		which := random.IntN(len(state.valid))
		key, err := check(state.valid[which].any(random))
		if key.Token != nil && err == nil {
			c.acceptedTokens.Add(1)
		}
		switch {
		case err == nil && which > 0:
			c.acceptedPrevious.Add(1)
		case err == nil:
			c.accepted.Add(1)
		case !errors.Is(err, keys.ErrUnavailable) && unchanged():
			c.rejectedValid.Add(1)
		}
		if random.IntN(20) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(time.Millisecond))))
		}
	}
}

func cacheHits(services []*keys.Service) (hits uint64) {
	for _, service := range services {
		hits += service.Stats().Hits
	}
	return hits
}

// requireScope is the condition of a route.
func requireScope(key *keys.Key) error {
	if !key.Allows("a") {
		return errors.New("scope missing")
	}
	return nil
}

// changer repeatedly changes a key on random Services, whose clocks differ by skew at most.
type changer struct {
	is      *is.I
	random  *rand.Rand
	service func() *keys.Service
	skew    time.Duration
}

// change changes a key as long as more returns true. While the outcome of a
// change is unknown, the key has neither a valid nor a revoked raw key.
func (c changer) change(ctx context.Context, k *trackedKey, more func(changes int) bool) {
	is, random := c.is, c.random
	retry := func(f func(*keys.Service) error) (retries int) {
		for ; ; retries++ {
			err := f(c.service())
			if !errors.Is(err, keys.ErrUnavailable) {
				is.NoErr(err)
				return retries
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	var issued keys.Issued
	create := func() {
		retry(func(service *keys.Service) (err error) {
			issued, err = service.Create(ctx, keys.Fields{})
			return err
		})
		time.Sleep(c.skew) // a use before the creation is not written
	}
	update := func(fields keys.Fields) {
		retry(func(service *keys.Service) error { return errorOf(service.Update(ctx, issued.Key.ID, fields)) })
	}
	rotate := func(overlap time.Duration) (retries int) {
		return retry(func(service *keys.Service) error {
			rotated, err := service.Rotate(ctx, issued.Key.ID, overlap)
			if err == nil {
				issued = rotated
			}
			return err
		})
	}
	// revokeAndRestore revokes the key and makes it valid again.
	revokeAndRestore := func(raws []credential, revoke, restore keys.Fields) {
		update(revoke)
		k.set(nil, raws)
		time.Sleep(shortLease / 2)
		k.set(nil, nil)
		update(restore)
		// Other processes learn of it within one lease.
		time.Sleep(shortLease + shortLease/5)
	}
	create()
	valid := []credential{newCredential(issued)} // the newest first
	for changes := 0; more(changes); changes++ {
		k.set(valid, nil)
		time.Sleep(time.Duration(random.Int64N(int64(2 * shortLease))))
		k.set(nil, nil)
		switch random.IntN(7) {
		case 0:
			revokeAndRestore(valid, keys.Fields{Active: new(false)}, keys.Fields{Active: new(true)})
		case 1:
			revokeAndRestore(valid, keys.Fields{ExpiresAt: new(time.Now().Add(-time.Second))}, keys.Fields{ExpiresAt: new(time.Time{})})
		case 2:
			revokeAndRestore(valid, keys.Fields{Scopes: scopes("b")}, keys.Fields{Scopes: scopes("a", "b")})
		case 3:
			rotate(0)
			k.set([]credential{newCredential(issued)}, valid)
			time.Sleep(shortLease / 2)
			valid = []credential{newCredential(issued)}
		case 4: // a long overlap ends an earlier one
			ended := valid[1:]
			if rotate(time.Hour) > 0 {
				valid = nil // a rotation may have been committed whose raw key is lost
			}
			valid = append([]credential{newCredential(issued)}, valid[:min(1, len(valid))]...)
			k.set(valid, ended)
			time.Sleep(shortLease / 2)
		case 5: // a short overlap ends by itself
			const overlap = 3 * shortLease
			rotate(overlap)
			end := time.Now().Add(overlap + c.skew + time.Millisecond)
			k.set([]credential{newCredential(issued)}, valid[1:])
			time.Sleep(time.Until(end))
			k.set([]credential{newCredential(issued)}, valid)
			time.Sleep(shortLease / 2)
			valid = []credential{newCredential(issued)}
		case 6:
			retry(func(service *keys.Service) error {
				err := service.Delete(ctx, issued.Key.ID)
				if errors.Is(err, keys.ErrNotFound) {
					return nil // the first response was lost
				}
				return err
			})
			k.set(nil, valid)
			time.Sleep(shortLease / 2)
			create()
			valid = []credential{newCredential(issued)}
		}
	}
	k.set(nil, nil)
}
