package keys_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"strings"
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

// The defaults of [keys.Options].
const (
	defaultLease         = 500 * time.Millisecond
	defaultFlushInterval = 5 * time.Second
)

var start = time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)

// countingStore counts what reaches the store and can be made to fail.
type countingStore struct {
	keys.Store
	finds, touches atomic.Int64
	fail           atomic.Bool
}

func (s *countingStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.finds.Add(1)
	return s.Store.Find(ctx, digest)
}

func (s *countingStore) Touch(ctx context.Context, uses []keys.Use) error {
	s.touches.Add(1)
	if s.fail.Load() {
		return errors.New("no connection")
	}
	return s.Store.Touch(ctx, uses)
}

// newService returns a Service for options that must be valid.
func newService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	service, err := keys.NewService(store, options)
	if err != nil {
		tb.Fatal(err)
	}
	return service
}

func issue(t *testing.T, s *keys.Service, fields keys.Fields) keys.Issued {
	t.Helper()
	issued, err := s.Create(t.Context(), fields)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

func TestVerify(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := start
	store := &countingStore{Store: memory.New().Keys()}
	s := newService(t, store, &keys.Options{Now: func() time.Time { return now }})
	issued := issue(t, s, keys.Fields{Name: new("Mine")})
	verify := func() error { _, err := s.Verify(t.Context(), string(issued.Raw)); return err }

	key, err := s.Verify(t.Context(), string(issued.Raw))
	is.NoErr(err)
	is.Equal(key.Name, "Mine")
	is.Equal(key.LastUsedAt, start)

	_, err = s.Update(t.Context(), 1, keys.Fields{ExpiresAt: new(start.Add(time.Second))})
	is.NoErr(err)
	is.NoErr(verify())
	now = start.Add(time.Second)
	is.Equal(verify(), keys.ErrExpired) // from the very instant
	_, err = s.Update(t.Context(), 1, keys.Fields{Active: new(false)})
	is.NoErr(err)
	is.Equal(verify(), keys.ErrInactive)
	_, err = s.Update(t.Context(), 1, keys.Fields{Active: new(true), ExpiresAt: new(time.Time{})})
	is.NoErr(err)
	is.NoErr(verify())

	rotated, err := s.Rotate(t.Context(), 1)
	is.NoErr(err)
	is.Equal(verify(), keys.ErrUnknown)
	issued = rotated
	is.NoErr(verify())
	is.NoErr(s.Delete(t.Context(), 1))
	is.Equal(verify(), keys.ErrUnknown)

	before := store.finds.Load()
	for _, junk := range []string{"", "x", string(issued.Raw) + "x", issued.Key.Mask, issued.Key.Prefix} {
		_, err := s.Verify(t.Context(), junk)
		is.Equal(err, keys.ErrMalformed)
	}
	is.Equal(store.finds.Load(), before) // junk costs no read
}

func TestVerify_peppers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	verify := func(o keys.Options, raw keys.RawKey) error {
		_, err := newService(t, store, &o).Verify(t.Context(), string(raw))
		return err
	}
	plain := issue(t, newService(t, store, nil), keys.Fields{})
	first := issue(t, newService(t, store, &keys.Options{Pepper: []byte("one")}), keys.Fields{})
	second := issue(t, newService(t, store, &keys.Options{Pepper: []byte("two")}), keys.Fields{})

	all := keys.Options{Pepper: []byte("two"), PreviousPeppers: [][]byte{[]byte("one"), nil}}
	for _, issued := range []keys.Issued{plain, first, second} {
		is.NoErr(verify(all, issued.Raw))
	}
	is.Equal(verify(keys.Options{}, first.Raw), keys.ErrUnknown)
	is.Equal(verify(keys.Options{Pepper: []byte("one")}, plain.Raw), keys.ErrUnknown)
	is.Equal(verify(keys.Options{Pepper: []byte("one"), PreviousPeppers: [][]byte{nil}}, second.Raw), keys.ErrUnknown)
}

func TestNewService_prefix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	old := issue(t, newService(t, store, nil), keys.Fields{})
	s := newService(t, store, &keys.Options{Prefix: "acme_live"})
	issued := issue(t, s, keys.Fields{})
	is.True(strings.HasPrefix(issued.Key.Prefix, "acme_live_"))
	for _, raw := range []keys.RawKey{old.Raw, issued.Raw} {
		_, err := s.Verify(t.Context(), string(raw))
		is.NoErr(err)
	}
	for _, prefix := range []string{"a-b", "é", strings.Repeat("a", 33)} {
		_, err := keys.NewService(store, &keys.Options{Prefix: prefix})
		is.True(strings.Contains(fmt.Sprint(err), strconv.Quote(prefix)))
	}
	_, err := keys.NewService(store, &keys.Options{Prefix: strings.Repeat("a", 32)})
	is.NoErr(err)
}

func TestFields(t *testing.T) {
	t.Parallel()
	s := newService(t, memory.New().Keys(), nil)
	for _, good := range []keys.Fields{
		{},
		{Name: new(strings.Repeat("🦆", 255))},
		{Name: new(" x ")},
		{ExpiresAt: new(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))},
		{ExpiresAt: new(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))},
		{ExpiresAt: new(time.Time{})},
	} {
		issue(t, s, good)
	}
	for field, bad := range map[string]keys.Fields{
		"name 1":      {Name: new("")},
		"name 2":      {Name: new(" \u2003\n")},
		"name 3":      {Name: new(strings.Repeat("a", 256))},
		"name 4":      {Name: new("a\x00b")},
		"name 5":      {Name: new("a\xff")},
		"expiresAt 1": {ExpiresAt: new(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC))},
		"expiresAt 2": {ExpiresAt: new(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200)))},
	} {
		_, err := s.Create(t.Context(), bad)
		_, err2 := s.Update(t.Context(), 1, bad)
		name, _, _ := strings.Cut(field, " ")
		if !errors.Is(err, keys.ErrInvalid) || !errors.Is(err2, keys.ErrInvalid) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v, %v", field, err, err2)
		}
	}
}

func TestRun_writesUsesInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &countingStore{Store: memory.New().Keys()}
		s := newService(t, store, nil)
		var raws []string
		for range 10 {
			raws = append(raws, string(issue(t, s, keys.Fields{}).Raw))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()

		for i := range 10_000 {
			_, err := s.Verify(t.Context(), raws[i%len(raws)])
			is.NoErr(err)
		}
		stored, err := store.Store.Get(t.Context(), 1)
		is.NoErr(err)
		is.True(stored.LastUsedAt.IsZero()) // not yet
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // one write for all
		stored, err = store.Store.Get(t.Context(), 10)
		is.NoErr(err)
		is.True(!stored.LastUsedAt.IsZero())
		time.Sleep(10 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // and none for nothing

		store.fail.Store(true)
		_, err = s.Verify(t.Context(), raws[0])
		is.NoErr(err)
		used := time.Now().UTC().Truncate(time.Millisecond)
		time.Sleep(3 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(4)) // tried again
		key, err := s.Get(t.Context(), 1)
		is.NoErr(err)
		is.Equal(key.LastUsedAt, used) // and shown meanwhile
		store.fail.Store(false)
		cancel()
		is.NoErr(<-done) // written at the end
		stored, err = store.Store.Get(t.Context(), 1)
		is.NoErr(err)
		is.Equal(stored.LastUsedAt, used)
	})
}

func Example() {
	ctx := context.Background()
	service, err := keys.NewService(memory.New().Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}

	issued, _ := service.Create(ctx, keys.Fields{Name: new("My viewer")})
	key, err := service.Verify(ctx, string(issued.Raw))
	fmt.Println(key.ID, key.Name, err)

	rotated, _ := service.Rotate(ctx, key.ID)
	_, err = service.Verify(ctx, string(issued.Raw))
	fmt.Println(err)
	_, err = service.Verify(ctx, string(rotated.Raw))
	fmt.Println(err)
	// Output:
	// 1 My viewer <nil>
	// keys: unknown raw key
	// <nil>
}
