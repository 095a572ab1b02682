package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

var errRejected = errors.New("rejected by the test")

// fencedCall is a call of a key store that must be fenced. The key has the id 1.
type fencedCall struct {
	name string
	call func(context.Context, keys.Store) error
	want error // on a server that is fenced successfully
}

var fencedReads = []fencedCall{
	{"Find", func(ctx context.Context, store keys.Store) error { return errorOf(store.Find(ctx, digestOf("1"))) }, nil},
	{"Find of an unknown key", func(ctx context.Context, store keys.Store) error {
		return errorOf(store.Find(ctx, digestOf("unknown")))
	}, keys.ErrNotFound},
	{"FindID", func(ctx context.Context, store keys.Store) error { return errorOf(store.FindID(ctx, 1)) }, nil},
	{"Changes", func(ctx context.Context, store keys.Store) error { return errorOf(store.Changes(ctx, 0)) }, nil},
}

var fencedWrites = []fencedCall{
	{"Update", func(ctx context.Context, store keys.Store) error {
		return errorOf(storagetest.UpdateKey(ctx, store, 1, func(key *keys.Key) error {
			key.Active = !key.Active
			return nil
		}))
	}, nil},
	// A key that another call has revoked, whose commit may be unconfirmed.
	{"Update that changes nothing", func(ctx context.Context, store keys.Store) error {
		return errorOf(storagetest.UpdateKey(ctx, store, 1, func(*keys.Key) error { return errRejected }))
	}, errRejected},
	{"Update of an unknown key", func(ctx context.Context, store keys.Store) error {
		return errorOf(storagetest.UpdateKey(ctx, store, 99, func(*keys.Key) error { return nil }))
	}, keys.ErrNotFound},
	{"Delete of an unknown key", func(ctx context.Context, store keys.Store) error {
		return errorOf(storagetest.DeleteKey(ctx, store, 99))
	}, keys.ErrNotFound},
}

// startFenced starts a pair with a key, and returns a pool for its operator.
func startFenced(t *testing.T) (*pgtest.Pair, *pgxpool.Pool) {
	t.Helper()
	pair := pgtest.StartPair(t)
	operator := connect(t, pair.Primary.DSN()+"&synchronous_commit=local")
	migrate(t, operator)
	execute(t, operator, insertKeys(1, 1))
	return pair, operator
}

// callAll makes all fenced calls at once, and returns their errors by name.
func callAll(ctx context.Context, store keys.Store, timeout time.Duration) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		mu      sync.Mutex
		results = make(map[string]error)
		calling sync.WaitGroup
	)
	for _, c := range slices.Concat(fencedReads, fencedWrites) {
		calling.Go(func() {
			err := c.call(ctx, store)
			mu.Lock()
			defer mu.Unlock()
			results[c.name] = err
		})
	}
	calling.Wait()
	return results
}

// wantUnavailable checks that all fenced calls fail, and returns their errors by name.
func wantUnavailable(t *testing.T, store keys.Store, timeout time.Duration) map[string]error {
	t.Helper()
	results := callAll(t.Context(), store, timeout)
	for name, err := range results {
		if err == nil || errors.Is(err, keys.ErrNotFound) || errors.Is(err, errRejected) {
			t.Errorf("%s returns %v, want an error of the store", name, err)
		}
	}
	return results
}

// wantAvailable checks that all fenced calls have their results. A busy machine may
// need several attempts, for the short timeouts of some tests.
func wantAvailable(t *testing.T, store keys.Store) {
	t.Helper()
	repeat(t, func(context.Context) (err error) {
		results := callAll(t.Context(), store, 20*time.Second)
		for _, c := range slices.Concat(fencedReads, fencedWrites) {
			if got := results[c.name]; !errors.Is(got, c.want) {
				err = errors.Join(err, errors.New(fmt.Sprint(c.name, " returns ", got, ", want ", c.want)))
			}
		}
		return err
	})
}

// TestFence_CallsWaitForStandby checks that no call succeeds while the standby is
// lost, although the role does not wait for it, or an operator cancels the waits.
func TestFence_CallsWaitForStandby(t *testing.T) {
	t.Parallel()
	pair, operator := startFenced(t)
	store := must(postgres.New(connect(t, pair.Primary.DSN()+"&synchronous_commit=off&pool_max_conns=10"), nil))(t).Keys()
	wantAvailable(t, store)
	pair.Standby.Pause()
	wantUnavailable(t, store, 300*time.Millisecond)

	stop := cancelWaits(t, operator)
	wantUnavailable(t, store, 30*time.Second)
	stop()
	pair.Standby.Resume()
	wantAvailable(t, store)
}

// TestFence_StandbyIsLost checks keys while the standby is lost: leases end, checks
// fail, no revocation succeeds, and the primary does not run out of connections.
func TestFence_StandbyIsLost(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair, operator := startFenced(t)
	service := startKeys(t, connectToPrimary(t, pair.Primary.DSN()), postgres.FenceAuto)
	list := createKeys(t, service, 20)
	process := &checker{t: t, name: "process", service: service}
	const sessions = `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`
	for _, outage := range []struct{ begin, end func() }{
		{pair.Standby.Pause, pair.Standby.Resume},
		{pair.Standby.Stop, pair.Standby.Restart},
		{pair.Standby.Kill, pair.Standby.Restart},
	} {
		for _, k := range list {
			process.untilAccepted(k)
		}
		outage.begin()
		time.Sleep(2 * testLease)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		is.True(errors.Is(service.Delete(ctx, list[0].id), keys.ErrUnavailable)) // may have an effect later
		cancel()
		var checking sync.WaitGroup
		for _, k := range list {
			checking.Go(func() {
				for range 3 {
					if err := process.check(k); !errors.Is(err, keys.ErrUnavailable) {
						t.Errorf("a check without the standby: %v", err)
					}
				}
			})
		}
		checking.Wait()
		is.True(count(t, operator, sessions) < 20) // the pool has 10 connections
		outage.end()
		t.Logf("keys are accepted %v after the standby is back", process.untilAccepted(list[1]).Round(time.Millisecond))
		list = list[1:]
	}
	process.log()
}

// TestFence_RejectsStandby checks that a pool that leads to a standby serves no
// keys, and fails at once.
func TestFence_RejectsStandby(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair, operator := startFenced(t)
	service := startKeys(t, connect(t, pair.Primary.DSN()), postgres.FenceAuto)
	k := createKeys(t, service, 1)[0]
	for _, asynchronous := range []bool{false, true} {
		if asynchronous {
			alterSystem(t, operator, `SET synchronous_standby_names = ''`)
		}
		for _, fence := range []postgres.Fence{postgres.FenceAuto, postgres.FenceAlways, postgres.FenceNever} {
			pool := connect(t, pair.Standby.DSN())
			for name, err := range wantUnavailable(t, must(postgres.New(pool, &postgres.Options{Fence: fence}))(t).Keys(), time.Minute) {
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s waits for its deadline", name)
				}
			}
			process := &checker{t: t, service: startKeys(t, pool, fence)}
			is.True(errors.Is(process.check(k), keys.ErrUnavailable))
		}
	}
}

// TestValidateConnect_FindsPrimary tests a pool with both hosts. It accepts only the
// primary, and only while that is writable and has its standby.
func TestValidateConnect_FindsPrimary(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair, operator := startFenced(t)
	first := pair.DSN(pair.Standby, pair.Primary)
	pool := connectToPrimary(t, first)
	wantAvailable(t, must(postgres.New(pool, nil))(t).Keys())
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"no standby", pair.Standby.Pause, pair.Standby.Resume},
		{"read-only", func() { alterSystem(t, operator, `SET default_transaction_read_only = on`) }, func() {
			execute(t, operator, `SET default_transaction_read_only = off`)
			alterSystem(t, operator, `RESET default_transaction_read_only`)
		}},
	} {
		outage.begin()
		for _, dsn := range []string{first, pair.Primary.DSN()} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			is.True(errorOf(connectToPrimary(t, dsn).Exec(ctx, `SELECT 1`)) != nil)
			is.NoErr(ctx.Err())
			cancel()
		}
		wantUnavailable(t, must(postgres.New(pool, nil))(t).Keys(), 2*time.Second) // existing connections too
		outage.end()
		for _, k := range fencedReads {
			repeat(t, func(ctx context.Context) error {
				if err := k.call(ctx, must(postgres.New(pool, nil))(t).Keys()); !errors.Is(err, k.want) {
					return err
				}
				return nil
			})
		}
	}
}

// TestFence_LostConnection drops the connection of fenced calls. No write is
// repeated, and none succeeds unless its response arrives.
func TestFence_LostConnection(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, at := range []dropPoint{beforeRequest, afterRequest, afterResponse} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dsn := pgtest.Database(t)
			operator := connect(t, dsn)
			migrate(t, operator)
			p, through := newProxy(t, dsn)
			store := must(postgres.New(connect(t, through), &postgres.Options{Fence: postgres.FenceAlways}))(t).Keys()
			const last = 10
			execute(t, operator, insertKeys(1, last))
			for id := int64(1); id <= int64(last); id++ {
				dropped := p.dropNext(at, isCommit)
				_, err := storagetest.DeleteKey(t.Context(), store, id)
				<-dropped
				is.True(err == nil && at == afterRequest || err != nil && !errors.Is(err, keys.ErrNotFound))
				_, err = store.Get(t.Context(), id)
				is.True(at == afterRequest || errors.Is(err, keys.ErrNotFound) == (at == afterResponse))

				calls := 0
				dropped = p.dropNext(at, isCommit)
				_, err = storagetest.UpdateKey(t.Context(), store, id, func(*keys.Key) error { calls++; return nil })
				if at == beforeRequest { // otherwise there is no such key, but a commit too
					is.Equal(calls, 1)
				}
				<-dropped
				is.True(err != nil || at == afterRequest)

				dropped = p.dropNext(at, func(statement string) bool { return strings.Contains(statement, "canvasback_key_epoch") })
				_, err = store.Changes(t.Context(), 0) // repeated
				is.NoErr(err)
				<-dropped
				_, err = store.Get(t.Context(), id) // replaces a connection that was lost after its response
				is.True(err == nil || errors.Is(err, keys.ErrNotFound))
			}
		})
	}
}

// TestDB_FenceStateFollowsSetting alters synchronous_standby_names of a server.
func TestDB_FenceStateFollowsSetting(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair, operator := startFenced(t)
	var log bytes.Buffer // of one process, whose calls follow each other
	open := func(fence postgres.Fence) *postgres.DB {
		return must(postgres.New(connect(t, pair.Primary.DSN()), &postgres.Options{Fence: fence, Logger: slog.New(slog.NewJSONHandler(&log, nil))}))(t)
	}
	auto, strict, never := open(postgres.FenceAuto), open(postgres.FenceStrict), open(postgres.FenceNever)
	always := open(postgres.FenceAlways)
	is.Equal(auto.FenceState(), "")
	for _, test := range []struct{ names, state, level, always string }{
		{`FIRST 1 (canvasback_standby)`, "complete", "INFO", "complete"},
		{`ANY 1 (canvasback_standby, c)`, "partial", "WARN", "partial"},
		{`canvasback_standby, c`, "partial", "WARN", "partial"},
		{`canvasback_standby`, "complete", "INFO", "complete"},
		{``, "off", "WARN", "complete"},
	} {
		alterSystem(t, operator, `SET synchronous_standby_names = '`+test.names+`'`)
		began := time.Now()
		for !strings.Contains(log.String(), `"synchronous_standby_names":"`+test.names+`"`) { // until the server has read the setting
			is.True(time.Since(began) < patience)
			log.Reset()
			must(auto.Keys().Changes(t.Context(), 0))(t)
		}
		is.Equal(auto.FenceState(), test.state)
		is.True(strings.Contains(log.String(), `"level":"`+test.level+`","msg":"failover fence","state":"`+test.state+`"`))
		for strict.FenceState() != test.state || always.FenceState() != test.always {
			is.True(time.Since(began) < patience)
			strict.Keys().Changes(t.Context(), 0) // fails unless complete
			always.Keys().Changes(t.Context(), 0)
		}
		log.Reset()
		must(auto.Keys().Changes(t.Context(), 0))(t)
		is.Equal(log.String(), "") // no change

		for _, call := range slices.Concat(fencedReads, fencedWrites) {
			err := call.call(t.Context(), strict.Keys())
			is.Equal(test.state == "complete", errors.Is(err, call.want))
			is.True(errors.Is(call.call(t.Context(), never.Keys()), call.want))
		}
		_, err := strict.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: test.names})
		is.Equal(test.state == "complete", err == nil)
		is.Equal(never.FenceState(), "off")
	}
}
