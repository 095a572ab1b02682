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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The defaults of keys.Options.
const (
	defaultLease         = 500 * time.Millisecond
	defaultFlushInterval = 5 * time.Second
)

var testTime = time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)

// newService returns a Service for valid options.
func newService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	is := is.New(tb)
	is.Helper()
	service, err := keys.NewService(store, options)
	is.NoErr(err)
	return service
}

// startService returns a Service that runs until the end of the test.
func startService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	s := newService(tb, store, options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	tb.Cleanup(func() { cancel(); <-done })
	return s
}

// issue creates a key.
func issue(tb testing.TB, s *keys.Service, fields keys.Fields) keys.Issued {
	is := is.New(tb)
	is.Helper()
	issued, err := s.Create(tb.Context(), fields)
	is.NoErr(err)
	return issued
}

// update, rotate and get are calls that must not fail.
func update(tb testing.TB, s *keys.Service, id int64, fields keys.Fields) {
	tb.Helper()
	_, err := s.Update(tb.Context(), id, fields)
	is.New(tb).NoErr(err)
}

func rotate(tb testing.TB, s *keys.Service, id int64, overlap time.Duration) keys.Issued {
	tb.Helper()
	issued, err := s.Rotate(tb.Context(), id, overlap)
	is.New(tb).NoErr(err)
	return issued
}

// get reads a key from a Service or a Store.
func get(tb testing.TB, from interface {
	Get(ctx context.Context, id int64) (keys.Key, error)
}, id int64) keys.Key {
	tb.Helper()
	key, err := from.Get(tb.Context(), id)
	is.New(tb).NoErr(err)
	return key
}

// verify returns the error of a check.
func verify(tb testing.TB, s *keys.Service, raw keys.RawKey) error {
	_, err := s.Verify(tb.Context(), string(raw))
	return err
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

// fail sets a hook that returns an error.
func (h *hook[T]) fail(err error) {
	h.set(func(context.Context, func() (T, error)) (none T, _ error) { return none, err })
}

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
	_, err := s.touch.call(ctx, func() (struct{}, error) { return struct{}{}, s.Store.Touch(ctx, uses, now) })
	return err
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
		is := is.New(t)
		store := newHookedStore()
		if o.Logger == nil {
			o.Logger = slog.New(slog.DiscardHandler)
		}
		s := newService(t, store, &o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() { is.NoErr(<-done) }()
		defer cancel()
		synctest.Wait()
		test(t, is, store, s)
	})
}

// updateKey changes one key in a store.
func updateKey(ctx context.Context, store keys.Store, id int64, change func(*keys.Key) error) (keys.Key, error) {
	list, err := store.Update(ctx, []int64{id}, func(list []keys.Key) error { return change(&list[0]) })
	if err != nil {
		return keys.Key{}, err
	}
	return list[0], nil
}
