package keys_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
)

const (
	replicas    = 4                     // services, each with a pool of its own
	subjects    = 16                    // keys that are changed and checked
	changesEach = 80                    // revoking changes of each key
	shortLease  = 40 * time.Millisecond // so that there are many rounds
)

var seedFlag = flag.Uint64("seed", 0, "seed of TestRevocation; random if 0")

// TestRevocation lets several services share one database, as processes do,
// through storage that is slow, loses answers, and stands still at times.
//
// Once a revoking call has returned, no check that begins on any of them may
// accept the key; before it is called, none may refuse it.
func TestRevocation(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := pgtest.Start(t)
		revocation(t, server.Restart, func() keys.Store { return openPostgres(t, server.DSN()) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "keys.db")
		revocation(t, func() {}, func() keys.Store { return openSQLite(t, file) })
	})
}

// openPostgres opens a pool of its own.
func openPostgres(tb testing.TB, dsn string) keys.Store {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	db := postgres.New(pool, nil)
	if err := db.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return db.Keys()
}

// openSQLite opens a handle of its own.
func openSQLite(tb testing.TB, file string) keys.Store {
	tb.Helper()
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(3)
	db := sqlite.New(pool)
	if err := db.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return db.Keys()
}

// troubledStore delays and loses answers, by a random schedule of its own.
type troubledStore struct {
	keys.Store
	gate sync.RWMutex // held while the process "stands still"

	mu          sync.Mutex
	random      *rand.Rand
	late, lost  atomic.Int64
	standstills atomic.Int64
	slowReads   atomic.Int64
}

// chance is true n times in a thousand.
func (s *troubledStore) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(1000) < n
}

func (s *troubledStore) pause(most time.Duration) {
	s.mu.Lock()
	d := time.Duration(s.random.Int64N(int64(most)))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *troubledStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.chance(100) {
		s.pause(shortLease / 4)
	}
	key, err := s.Store.Find(ctx, digest)
	if s.chance(100) {
		s.slowReads.Add(1)
		s.pause(3 * shortLease)
	}
	return key, err
}

func (s *troubledStore) Epoch(ctx context.Context) (int64, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	epoch, err := s.Store.Epoch(ctx)
	switch {
	case s.chance(80):
		s.lost.Add(1)
		return 0, errors.New("answer lost")
	case s.chance(150):
		s.late.Add(1)
		s.pause(shortLease * 3 / 2)
	}
	return epoch, err
}

// standStill keeps every call of this replica waiting for a while.
func (s *troubledStore) standStill() {
	s.standstills.Add(1)
	s.gate.Lock()
	defer s.gate.Unlock()
	s.pause(4 * shortLease)
}

// subject is a key as those who check it know it.
type subject struct {
	mu    sync.Mutex
	raw   string
	alive bool // false: dead, or about to change
	dead  string
	round int // counts every step, so that a check knows that nothing happened meanwhile
}

// set makes a step.
func (s *subject) set(raw string, alive bool, dead string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw, s.alive, s.dead = raw, alive, dead
	s.round++
}

// view is the subject as it is now.
func (s *subject) view() (raw string, alive bool, dead string, round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw, s.alive, s.dead, s.round
}

func revocation(t *testing.T, disturb func(), open func() keys.Store) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var services []*keys.Service
	var stores []*troubledStore
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range replicas {
		store := &troubledStore{Store: open(), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		service := newService(t, store, &keys.Options{
			Lease:         shortLease,
			FlushInterval: 50 * time.Millisecond,
			Logger:        slog.New(slog.DiscardHandler),
		})
		running.Go(func() { service.Run(ctx) })
		services, stores = append(services, service), append(stores, store)
	}

	var accepted, refused, wronglyAccepted atomic.Int64
	var all []*subject
	var controllers sync.WaitGroup
	for i := range subjects {
		s := new(subject)
		all = append(all, s)
		controllers.Go(func() {
			control(ctx, t, s, services, rand.New(rand.NewPCG(seed, uint64(1000+i))))
		})
	}
	checkers, stop := context.WithCancel(ctx)
	defer stop()
	var checking sync.WaitGroup
	for i := range 2 * replicas {
		random := rand.New(rand.NewPCG(seed, uint64(2000+i)))
		service := services[i%replicas]
		checking.Go(func() {
			for checkers.Err() == nil {
				s := all[random.IntN(len(all))]
				raw, alive, dead, round := s.view()
				if dead != "" {
					_, err := service.Verify(ctx, dead)
					_, _, _, after := s.view()
					switch {
					case err == nil && after == round:
						wronglyAccepted.Add(1)
					case err != nil && !errors.Is(err, keys.ErrUnavailable):
						refused.Add(1)
					}
				}
				if !alive {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				_, err := service.Verify(ctx, raw)
				_, _, _, after := s.view()
				switch {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, keys.ErrUnavailable):
				case after == round:
					t.Errorf("a good key is refused: %v", err)
				}
				if random.IntN(20) == 0 {
					time.Sleep(time.Duration(random.Int64N(int64(time.Millisecond))))
				}
			}
		})
	}
	checking.Go(func() {
		random := rand.New(rand.NewPCG(seed, 3000))
		for checkers.Err() == nil {
			stores[random.IntN(replicas)].standStill()
			time.Sleep(5 * shortLease)
		}
	})
	finished := make(chan struct{})
	go func() { controllers.Wait(); close(finished) }()
	select {
	case <-time.After(2 * time.Second):
		disturb() // in the goroutine of the test
	case <-finished:
	}
	<-finished
	stop()
	checking.Wait()

	var hits, late, lost, still, slow uint64
	for i := range replicas {
		hits += services[i].Stats().Hits
		late += uint64(stores[i].late.Load())
		lost += uint64(stores[i].lost.Load())
		still += uint64(stores[i].standstills.Load())
		slow += uint64(stores[i].slowReads.Load())
	}
	t.Logf("accepted %d, refused %d; hits %d; answers late %d, lost %d; slow reads %d; standstills %d",
		accepted.Load(), refused.Load(), hits, late, lost, slow, still)
	if wronglyAccepted.Load() > 0 {
		t.Errorf("%d checks accepted a dead key", wronglyAccepted.Load())
	}
	for name, n := range map[string]uint64{
		"accepted checks": uint64(accepted.Load()), "refused checks": uint64(refused.Load()), "hits": hits,
		"late answers": late, "lost answers": lost, "slow reads": slow, "standstills": still,
	} {
		if n == 0 {
			t.Errorf("the test has seen no %s", name)
		}
	}
}

// control changes one key on randomly chosen services. What is not known to
// have happened is neither dead nor alive.
func control(ctx context.Context, t *testing.T, s *subject, services []*keys.Service, random *rand.Rand) {
	retry := func(f func(*keys.Service) error) {
		for {
			err := f(services[random.IntN(len(services))])
			if err == nil {
				return
			}
			if !errors.Is(err, keys.ErrUnavailable) {
				t.Errorf("change: %v", err)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	// A change for the better is known everywhere after the next answer about
	// the epoch, or when the lease is over.
	spread := func() { time.Sleep(shortLease + shortLease/5) }

	var issued keys.Issued
	create := func() {
		retry(func(service *keys.Service) (err error) {
			issued, err = service.Create(ctx, keys.Fields{})
			return err
		})
	}
	create()
	for range changesEach {
		raw := string(issued.Raw)
		s.set(raw, true, "")
		time.Sleep(time.Duration(random.Int64N(int64(2 * shortLease))))
		s.set(raw, false, "")
		switch random.IntN(4) {
		case 0:
			retry(func(service *keys.Service) error {
				_, err := service.Update(ctx, issued.Key.ID, keys.Fields{Active: new(false)})
				return err
			})
			s.set(raw, false, raw)
			time.Sleep(shortLease / 2)
			s.set(raw, false, "")
			retry(func(service *keys.Service) error {
				_, err := service.Update(ctx, issued.Key.ID, keys.Fields{Active: new(true)})
				return err
			})
			spread()
		case 1:
			retry(func(service *keys.Service) error {
				_, err := service.Update(ctx, issued.Key.ID, keys.Fields{ExpiresAt: new(time.Now().Add(-time.Second))})
				return err
			})
			s.set(raw, false, raw)
			time.Sleep(shortLease / 2)
			s.set(raw, false, "")
			retry(func(service *keys.Service) error {
				_, err := service.Update(ctx, issued.Key.ID, keys.Fields{ExpiresAt: new(time.Time{})})
				return err
			})
			spread()
		case 2:
			retry(func(service *keys.Service) error {
				rotated, err := service.Rotate(ctx, issued.Key.ID)
				if err == nil {
					issued = rotated
				}
				return err
			})
			s.set(string(issued.Raw), true, raw)
			time.Sleep(shortLease / 2)
		case 3:
			retry(func(service *keys.Service) error {
				err := service.Delete(ctx, issued.Key.ID)
				if errors.Is(err, keys.ErrNotFound) {
					return nil // the first answer was lost
				}
				return err
			})
			s.set(raw, false, raw)
			time.Sleep(shortLease / 2)
			create()
		}
	}
	s.set("", false, "")
}
