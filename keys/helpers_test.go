package keys_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The defaults of keys.Options.
const (
	defaultLease         = 500 * time.Millisecond
	defaultFlushInterval = 5 * time.Second
)

var testTime = time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

func newService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	return must(keys.NewService(store, options))(tb)
}

// startService returns a Service that runs until the end of the test.
func startService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	s := newService(tb, store, options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		is.New(tb).NoErr(<-done)
	})
	return s
}

func issue(tb testing.TB, s *keys.Service, fields keys.Fields) keys.Issued {
	tb.Helper()
	return must(s.Create(tb.Context(), fields))(tb)
}

// update, rotate and get are calls that must not fail.
func update(tb testing.TB, s *keys.Service, id int64, fields keys.Fields) {
	tb.Helper()
	must(s.Update(tb.Context(), id, fields))(tb)
}

func rotate(tb testing.TB, s *keys.Service, id int64, overlap time.Duration) keys.Issued {
	tb.Helper()
	return must(s.Rotate(tb.Context(), id, overlap))(tb)
}

// get reads a key from a Service or a Store.
func get(tb testing.TB, from interface {
	Get(ctx context.Context, id int64) (keys.Key, error)
}, id int64) keys.Key {
	tb.Helper()
	return must(from.Get(tb.Context(), id))(tb)
}

// verify returns the error of a check.
func verify(tb testing.TB, s *keys.Service, raw keys.RawKey) error {
	return errorOf(s.Verify(tb.Context(), string(raw)))
}

// hook runs in place of a call, unless it is nil; next is the replaced call.
type hook[T any] struct {
	mu   sync.Mutex
	hook func(ctx context.Context, next func() (T, error)) (T, error)
}

// set sets the hook; nil removes it.
func (h *hook[T]) set(f func(ctx context.Context, next func() (T, error)) (T, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = f
}

// before sets a hook that calls f first, and fails if f does.
func (h *hook[T]) before(f func(ctx context.Context) error) {
	h.set(func(ctx context.Context, next func() (T, error)) (none T, _ error) {
		if err := f(ctx); err != nil {
			return none, err
		}
		return next()
	})
}

// after sets a hook that calls f with what the call returns.
func (h *hook[T]) after(f func(*T)) {
	h.set(func(_ context.Context, next func() (T, error)) (T, error) {
		result, err := next()
		f(&result)
		return result, err
	})
}

// frozen is a call before which nothing responds.
func frozen(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h *hook[T]) fail(err error) { h.before(func(context.Context) error { return err }) }

func (h *hook[T]) call(ctx context.Context, next func() (T, error)) (T, error) {
	h.mu.Lock()
	f := h.hook
	h.mu.Unlock()
	if f != nil {
		return f(ctx, next)
	}
	return next()
}

// hookedStore is a memory store that claims to be shared. It counts calls and runs the hooks
// of a test.
type hookedStore struct {
	keys.Store
	unshared                  bool
	finds, touches, questions atomic.Int64

	find    hook[keys.Key] // and FindID
	changes hook[keys.Changes]
	touch   hook[struct{}]
	updated hook[[]keys.Key]
	deleted hook[[]keys.Key]
}

func newHookedStore() *hookedStore { return &hookedStore{Store: memory.New().Keys()} }

func (s *hookedStore) Shared() bool { return !s.unshared }

func (s *hookedStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.finds.Add(1)
	return s.find.call(ctx, func() (keys.Key, error) { return s.Store.Find(ctx, digest) })
}

func (s *hookedStore) FindID(ctx context.Context, id int64) (keys.Key, error) {
	s.finds.Add(1)
	return s.find.call(ctx, func() (keys.Key, error) { return s.Store.FindID(ctx, id) })
}

func (s *hookedStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	s.questions.Add(1)
	return s.changes.call(ctx, func() (keys.Changes, error) { return s.Store.Changes(ctx, since) })
}

func (s *hookedStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	s.touches.Add(1)
	return errorOf(s.touch.call(ctx, func() (struct{}, error) { return struct{}{}, s.Store.Touch(ctx, uses, now) }))
}

func (s *hookedStore) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return s.updated.call(ctx, func() ([]keys.Key, error) { return s.Store.Update(ctx, ids, change) })
}

func (s *hookedStore) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) ([]keys.Key, error) {
	return s.deleted.call(ctx, func() ([]keys.Key, error) { return s.Store.Delete(ctx, ids, check) })
}

// testRunning runs a test in a synctest bubble, with a Service that runs and has
// a lease when the test begins.
func testRunning(t *testing.T, o keys.Options, test func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newHookedStore()
		if o.Logger == nil {
			o.Logger = slog.New(slog.DiscardHandler)
		}
		s := startService(t, store, &o)
		synctest.Wait()
		test(t, is.New(t), store, s)
	})
}

// change changes one key in a store, as another process does.
func change(tb testing.TB, store keys.Store, id int64, f func(*keys.Key)) keys.Key {
	tb.Helper()
	return must(store.Update(tb.Context(), []int64{id}, func(list []keys.Key) error {
		f(&list[0])
		return nil
	}))(tb)[0]
}

func deactivate(key *keys.Key) { key.Active = false }

func forgetPublicKeys(key *keys.Key) {
	key.PublicKey, key.PreviousPublicKey = keys.PublicKey{}, keys.PublicKey{}
}
