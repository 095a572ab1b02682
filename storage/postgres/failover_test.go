package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

const (
	// testLease is short, so that more keys are revoked in less time.
	testLease = time.Second

	// testReadTimeout bounds a check that reads the store.
	testReadTimeout = 2 * time.Second
)

// connectToPrimary opens a pool that finds the primary among the hosts of a URL, in
// the way that the package comment documents.
func connectToPrimary(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	return connectWith(t, dsn+"&pool_max_conns=10", func(config *pgxpool.Config) {
		postgres.ConfigurePool(config)
		config.ConnConfig.ValidateConnect = postgres.ValidateConnect // also of a single host
	})
}

// startKeys runs a key service, as one process does.
func startKeys(t testing.TB, pool *pgxpool.Pool, fence postgres.Fence) *keys.Service {
	t.Helper()
	service := must(keys.NewService(must(postgres.New(pool, &postgres.Options{Fence: fence}))(t).Keys(), &keys.Options{
		Lease:       testLease,
		ReadTimeout: testReadTimeout,
		Logger:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { service.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return service
}

// testKey is a key that is valid at first.
type testKey struct {
	id       int64
	raw      string
	token    string      // a page token of it
	revoking atomic.Bool // a call that revokes it has begun
	revoked  atomic.Bool // such a call has returned
}

// createKeys issues keys, several at a time because each waits for the standby.
func createKeys(t testing.TB, service *keys.Service, n int) []*testKey {
	t.Helper()
	list := make([]*testKey, n)
	var creating sync.WaitGroup
	limit := make(chan struct{}, 8)
	for i := range list {
		limit <- struct{}{}
		creating.Go(func() {
			defer func() { <-limit }()
			repeat(t, func(ctx context.Context) error {
				issued, err := service.Create(ctx, keys.Fields{})
				list[i] = &testKey{id: issued.Key.ID, raw: string(issued.Raw)}
				return err
			})
			repeat(t, func(ctx context.Context) error {
				issued, err := service.IssueToken(ctx, list[i].raw, keys.TokenFields{})
				list[i].token = string(issued.Raw)
				return err
			})
		})
	}
	creating.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// patience is how long tests wait for what happens within seconds on an idle machine.
const patience = 5 * time.Minute

// repeat repeats a call until it succeeds. Calls fail while the pool connects to another
// server. One that takes too long gets twice the time.
func repeat(t testing.TB, call func(context.Context) error) {
	limit := 3 * time.Second
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := call(ctx)
		if ctx.Err() != nil {
			limit *= 2
		}
		cancel()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Error(err)
			return
		}
	}
}

// revoke revokes a key, in a way that depends on its id.
func (k *testKey) revoke(t testing.TB, service *keys.Service) {
	k.revoking.Store(true)
	repeat(t, func(ctx context.Context) (err error) {
		switch k.id % 4 {
		case 0:
			_, err = service.Update(ctx, k.id, keys.Fields{Active: new(false)})
		case 1:
			_, err = service.Update(ctx, k.id, keys.Fields{ExpiresAt: new(time.Now().Add(-time.Hour))})
		case 2:
			_, err = service.Rotate(ctx, k.id, 0)
		case 3:
			if err = service.Delete(ctx, k.id); errors.Is(err, keys.ErrNotFound) {
				err = nil // deleted by a call that failed
			}
		}
		return err
	})
	if !t.Failed() {
		k.revoked.Store(true)
	}
}

// checker checks keys on behalf of one process, and counts the outcomes.
type checker struct {
	t       testing.TB
	name    string
	service *keys.Service

	checks, accepted, rejected, unavailable atomic.Int64

	afterRevocation atomic.Int64 // checks of revoked keys
	stale           atomic.Int64 // accepted ones of them
}

func (c *checker) check(k *testKey) error {
	revoked := k.revoked.Load()
	if revoked {
		c.afterRevocation.Add(1)
	}
	credential := k.raw
	if c.checks.Add(1)%2 == 0 {
		credential = k.token
	}
	_, err := c.service.Verify(c.t.Context(), credential)
	switch {
	case err == nil && revoked:
		c.stale.Add(1)
	case err == nil:
		c.accepted.Add(1)
	case errors.Is(err, keys.ErrUnavailable):
		c.unavailable.Add(1)
	default:
		c.rejected.Add(1)
		if !k.revoking.Load() && c.t.Context().Err() == nil {
			c.t.Errorf("%s: valid key %d: %v", c.name, k.id, err)
		}
	}
	return err
}

// checkAll checks all keys in turn until ctx ends.
func (c *checker) checkAll(ctx context.Context, list []*testKey) {
	for {
		for _, k := range list {
			if ctx.Err() != nil {
				return
			}
			c.check(k)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (c *checker) log() {
	c.t.Logf("%s: %d checks accepted, %d rejected, %d unavailable; %d after revocation, %d of them stale",
		c.name, c.accepted.Load(), c.rejected.Load(), c.unavailable.Load(), c.afterRevocation.Load(), c.stale.Load())
}

// untilAccepted returns how long it takes until the process accepts a valid key.
func (c *checker) untilAccepted(k *testKey) time.Duration {
	c.t.Helper()
	began := time.Now()
	for c.check(k) != nil {
		if time.Since(began) > patience {
			c.t.Fatalf("%s: a valid key is not accepted", c.name)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// revokeAll revokes keys, several at a time. After each, all processes check it.
func revokeAll(t testing.TB, admin *keys.Service, list []*testKey, checkers []*checker) {
	var running sync.WaitGroup
	limit := make(chan struct{}, 8)
	for _, k := range list {
		limit <- struct{}{}
		running.Go(func() {
			k.revoke(t, admin)
			<-limit
			for _, c := range checkers {
				running.Go(func() { c.check(k) })
			}
		})
	}
	running.Wait()
}

// TestFailover_RevokedKeysAreRejected promotes the standby while processes check
// keys, and revokes keys on the new primary. No process accepts one of them, except
// one that is not fenced.
func TestFailover_RevokedKeysAreRejected(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault func(old *pgtest.Server) // before the promotion
		end   func(old *pgtest.Server)
	}{
		// Such as under a manager whose agent on the primary hangs.
		{"primary alive", func(*pgtest.Server) {}, func(*pgtest.Server) {}},
		{"primary frozen, then resumed", (*pgtest.Server).Pause, (*pgtest.Server).Resume},
		{"primary killed, then restarted", (*pgtest.Server).Kill, (*pgtest.Server).Restart},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			pair := pgtest.StartPair(t)
			operator := connectToPrimary(t, pair.DSN(pair.Standby, pair.Primary))
			migrate(t, connect(t, pair.Primary.DSN()))
			repeat(t, operator.Ping) // the machine may be loaded
			admin := startKeys(t, operator, postgres.FenceAuto)
			list := createKeys(t, admin, 73)
			valid, first, second := list[0], list[1:37], list[37:]

			newChecker := func(name string, pool *pgxpool.Pool, fence postgres.Fence) *checker {
				return &checker{t: t, name: name, service: startKeys(t, pool, fence)}
			}
			var (
				both    = newChecker("pool with both hosts", connectToPrimary(t, pair.DSN(pair.Primary, pair.Standby)), postgres.FenceAuto)
				old     = newChecker("pool with the old primary", connect(t, pair.Primary.DSN()), postgres.FenceAuto)
				always  = newChecker("always fenced", connect(t, pair.Primary.DSN()), postgres.FenceAlways)
				control = newChecker("never fenced", connect(t, pair.Primary.DSN()), postgres.FenceNever)
			)
			checkers := []*checker{both, old, always, control}
			ctx, stop := context.WithCancel(t.Context())
			var checking sync.WaitGroup
			for _, c := range checkers {
				for _, k := range list {
					c.untilAccepted(k) // the machine may be loaded
				}
				checking.Go(func() { c.checkAll(ctx, list) })
			}
			defer func() {
				stop()
				checking.Wait()
				pair.Primary.Kill() // so that its processes do not wait for the standby when they end
			}()

			test.fault(pair.Primary)
			pair.Promote()
			promoted := time.Now()
			created := createKeys(t, admin, 1)[0] // unknown to the old primary
			t.Logf("keys are created on the new primary after %v", time.Since(promoted).Round(time.Millisecond))
			both.untilAccepted(created)
			t.Logf("and accepted after %v", time.Since(promoted).Round(time.Millisecond))
			revokeAll(t, admin, first, checkers)
			test.end(pair.Primary)
			revokeAll(t, admin, second, checkers)
			time.Sleep(2 * testLease)
			for _, c := range checkers {
				for _, k := range list[1:] {
					checking.Go(func() { c.check(k) })
				}
			}
			stop()
			checking.Wait()

			for _, c := range checkers {
				c.log()
				is.True(c == control || c.stale.Load() == 0)
			}
			for began := time.Now(); control.stale.Load() == 0; { // the test can fail
				is.True(time.Since(began) < patience)
				control.check(first[0])
			}
			both.untilAccepted(valid)
			is.True(errors.Is(old.check(valid), keys.ErrUnavailable))
			is.True(errors.Is(always.check(valid), keys.ErrUnavailable))

			// A new process finds the new primary, although the old one accepts connections.
			added := newChecker("new process", connectToPrimary(t, pair.DSN(pair.Primary, pair.Standby)), postgres.FenceAuto)
			t.Logf("a new process finds it after %v", added.untilAccepted(created).Round(time.Millisecond))
			revokeAll(t, admin, []*testKey{valid}, []*checker{added, both, old})
			for _, c := range []*checker{added, both, old} {
				is.True(c.check(valid) != nil)
			}
		})
	}
}
