package revocation_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// revocations records changes and checks of one key by several goroutines.
type revocations struct {
	t  testing.TB
	id int64

	mu          sync.Mutex
	credentials []credential // by generation: each rotation begins one
	unknown     int          // generations whose raw key is lost, negative
	calls       []porcupine.Operation
}

// keyCall is a change or a check. Generation is that of the checked raw key, or the one
// that a rotation has begun.
type keyCall struct {
	method     string
	generation int
}

// keyModel is the state of a key. A call returns nil, [keys.ErrInactive], [keys.ErrUnknown]
// or [keys.ErrNotFound], or [keys.ErrUnavailable] if it may take effect later or never.
type keyModel struct {
	deleted, inactive bool
	generation        int
}

var revocationModel = porcupine.Model{
	Init: func() any { return keyModel{} },
	Step: func(before, call, result any) (bool, any) {
		return before.(keyModel).step(call.(keyCall), result)
	},
}

func (m keyModel) step(call keyCall, result any) (bool, keyModel) {
	if call.method == "check" {
		var want error
		switch {
		case m.deleted || m.generation != call.generation:
			want = keys.ErrUnknown
		case m.inactive:
			want = keys.ErrInactive
		}
		return result == want, m
	}
	if m.deleted {
		return result == keys.ErrNotFound || result == keys.ErrUnavailable, m
	}
	switch call.method {
	case "activate":
		m.inactive = false
	case "deactivate":
		m.inactive = true
	case "rotate":
		m.generation = call.generation
	case "delete":
		m.deleted = true
	}
	return result == nil || result == keys.ErrUnavailable, m
}

func newRevocations(t testing.TB, service *keys.Service) *revocations {
	for {
		issued, err := service.Create(t.Context(), keys.Fields{Scopes: scopes("a")})
		if err == nil {
			time.Sleep(shortLease) // clocks may differ by less
			return &revocations{t: t, id: issued.Key.ID, credentials: []credential{newCredential(issued)}}
		}
		time.Sleep(shortLease)
	}
}

func (h *revocations) change(service func() *keys.Service, changes int, random *rand.Rand) {
	ctx := h.t.Context()
	for range changes {
		time.Sleep(time.Duration(random.Int64N(int64(shortLease))))
		call := keyCall{method: []string{"activate", "activate", "deactivate", "rotate", "rotate", "delete"}[random.IntN(6)]}
		if call.method == "delete" && random.IntN(4) > 0 {
			call.method = "activate"
		}
		var err error
		began := time.Now()
		switch call.method {
		case "activate", "deactivate":
			_, err = service().Update(ctx, h.id, keys.Fields{Active: new(call.method == "activate")})
		case "rotate":
			var issued keys.Issued
			issued, err = service().Rotate(ctx, h.id, 0)
			call.generation = h.begin(issued, err)
		case "delete":
			err = service().Delete(ctx, h.id)
		}
		ended := time.Now()
		if err == nil && call.method != "activate" {
			ended = ended.Add(-shortLease) // the change was committed a lease before
		}
		h.record(call, err, began, ended)
	}
}

func (h *revocations) begin(issued keys.Issued, err error) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.unknown--
		return h.unknown
	}
	h.credentials = append(h.credentials, newCredential(issued))
	return len(h.credentials) - 1
}

// check checks one of the last raw keys, or its page token. What it returns was true at
// most one lease before.
func (h *revocations) check(check func(raw string) (keys.Key, error), checks int, random *rand.Rand) {
	for range checks {
		time.Sleep(time.Duration(random.Int64N(int64(shortLease))))
		h.mu.Lock()
		generation := max(0, len(h.credentials)-1-random.IntN(2))
		credential := h.credentials[generation].any(random)
		h.mu.Unlock()
		began := time.Now()
		_, err := check(credential)
		if !errors.Is(err, keys.ErrUnavailable) {
			h.record(keyCall{"check", generation}, err, began.Add(-shortLease), time.Now())
		}
	}
}

// record adds a call. That of an unknown outcome may take effect at any later time.
func (h *revocations) record(call keyCall, err error, began, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	operation := porcupine.Operation{ClientId: len(h.calls), Input: call, Output: err, Call: began.UnixNano(), Return: ended.UnixNano()}
	if err == nil {
		operation.Output = nil
	}
	if errors.Is(err, keys.ErrUnavailable) {
		operation.Output, operation.Return = keys.ErrUnavailable, math.MaxInt64
	}
	h.calls = append(h.calls, operation)
}

// checkOrder fails if no order of the calls explains all results. On a slow machine so many
// calls overlap that this cannot be decided.
func (h *revocations) checkOrder(t *testing.T) {
	switch porcupine.CheckOperationsTimeout(revocationModel, h.calls, time.Minute) {
	case porcupine.Illegal:
		t.Errorf("no order of calls explains %+v", h.calls)
	case porcupine.Unknown:
		t.Logf("order of %d calls not decided", len(h.calls))
	}
}

// TestRevocation_IsLinearizable records calls of several Services on PostgreSQL, while
// their connections are ended or frozen, and their processes replaced.
func TestRevocation_IsLinearizable(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	dsn := pgtest.Database(t)
	pool := must(pgxpool.New(t.Context(), dsn))(t)
	defer pool.Close()
	var stores []*unreliableStore
	for i := range 3 {
		stores = append(stores, &unreliableStore{Store: openPostgres(t, dsn), random: rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))})
	}
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		var running, calling sync.WaitGroup
		var services []*keys.Service
		for _, store := range stores {
			service := newService(t, store, &keys.Options{Lease: shortLease, Logger: slog.New(slog.DiscardHandler)})
			running.Go(func() { service.Run(ctx) })
			services = append(services, service)
		}
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				stores[n%len(stores)].freeze()
				pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`)
				time.Sleep(4 * shortLease)
			}
		})
		h := newRevocations(t, services[0])
		for _, service := range services {
			calling.Go(func() {
				h.change(func() *keys.Service { return service }, 4, rand.New(rand.NewPCG(rand.Uint64(), 0)))
			})
			check := func(raw string) (keys.Key, error) { return service.VerifyFunc(t.Context(), raw, requireScope) }
			calling.Go(func() { h.check(check, 8, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
		}
		calling.Wait()
		cancel()
		running.Wait()
		h.checkOrder(t)
	}
}
