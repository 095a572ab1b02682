package keys_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestNewService_ChecksPrefix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	for _, prefix := range []string{"a-b", "é", strings.Repeat("a", 33)} {
		_, err := keys.NewService(store, &keys.Options{Prefix: prefix})
		is.True(strings.Contains(fmt.Sprint(err), strconv.Quote(prefix)))
	}
	is.True(errorOf(keys.NewService(nil, nil)) != nil)
	must(keys.NewService(store, &keys.Options{Prefix: strings.Repeat("a", 32)}))(t)
}

func TestService_AcceptsKeysWithPreviousPrefix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	previous := issue(t, newService(t, store, nil), keys.Fields{})
	s := newService(t, store, &keys.Options{Prefix: "acme_live"})
	issued := issue(t, s, keys.Fields{})
	is.True(strings.HasPrefix(issued.Key.Prefix, "acme_live_"))
	is.NoErr(verify(t, s, previous.Raw))
	is.NoErr(verify(t, s, issued.Raw))
}

func TestService_AcceptsKeysWithPreviousPeppers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	withPeppers := func(current string, previous ...[]byte) *keys.Service {
		return newService(t, store, &keys.Options{Pepper: []byte(current), PreviousPeppers: previous})
	}
	plain := issue(t, withPeppers(""), keys.Fields{})
	first := issue(t, withPeppers("one"), keys.Fields{})
	second := issue(t, withPeppers("two"), keys.Fields{})

	all := withPeppers("two", []byte("one"), nil)
	for _, issued := range []keys.Issued{plain, first, second} {
		is.NoErr(verify(t, all, issued.Raw))
	}
	is.Equal(verify(t, withPeppers(""), first.Raw), keys.ErrUnknown)
	is.Equal(verify(t, withPeppers("one"), plain.Raw), keys.ErrUnknown)
	is.Equal(verify(t, withPeppers("one", nil), second.Raw), keys.ErrUnknown)
}

func TestFields_AcceptsLimits(t *testing.T) {
	t.Parallel()
	s := newService(t, memory.New().Keys(), nil)
	for _, fields := range []keys.Fields{
		{},
		{Name: new(strings.Repeat("🦆", 255))},
		{Name: new(" x ")},
		{ExpiresAt: new(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))},
		{ExpiresAt: new(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))},
		{ExpiresAt: new(time.Time{})},
		{Owner: new(strings.Repeat("🦆", 255)), Scopes: &keys.Scopes{}},
		{Owner: new(""), Scopes: scopes()},
		{Scopes: scopes(strings.Repeat("a", 64), "a", "0:9._-z")},
		{Scopes: scopes(strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5")...)},
	} {
		issue(t, s, fields)
	}
}

func TestFields_RejectsInvalid(t *testing.T) {
	t.Parallel()
	s := newService(t, memory.New().Keys(), nil)
	issue(t, s, keys.Fields{})
	for name, c := range map[string]struct {
		field  string
		fields keys.Fields
	}{
		"empty name":        {"name", keys.Fields{Name: new("")}},
		"white space":       {"name", keys.Fields{Name: new(" \u2003\n")}},
		"long name":         {"name", keys.Fields{Name: new(strings.Repeat("a", 256))}},
		"NUL":               {"name", keys.Fields{Name: new("a\x00b")}},
		"invalid UTF-8":     {"name", keys.Fields{Name: new("a\xff")}},
		"white owner":       {"owner", keys.Fields{Owner: new(" ")}},
		"long owner":        {"owner", keys.Fields{Owner: new(strings.Repeat("a", 256))}},
		"NUL in owner":      {"owner", keys.Fields{Owner: new("a\x00b")}},
		"before 1970":       {"expiresAt", keys.Fields{ExpiresAt: new(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC))}},
		"year 10000 in UTC": {"expiresAt", keys.Fields{ExpiresAt: new(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200)))}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := s.Create(t.Context(), c.fields)
			is.True(errors.Is(err, keys.ErrInvalid))
			is.True(strings.HasPrefix(err.Error(), c.field+" ")) // the field's name on the wire
			is.True(errors.Is(errorOf(s.Update(t.Context(), 1, c.fields)), keys.ErrInvalid))
		})
	}
}

func TestOptions_FormatsWithoutPeppers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := keys.Options{Prefix: "shown", Pepper: []byte("secret"), PreviousPeppers: [][]byte{[]byte("secret too")}}
	service := newService(t, memory.New().Keys(), &options)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, options)
		fmt.Fprintf(&out, verb, &options)
		fmt.Fprintf(&out, verb, struct{ Options keys.Options }{options})
		fmt.Fprintf(&out, verb, service)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "options", options, "service", service)
	}
	for _, verb := range []string{"%s", "%x", "%X", "%d", "%#v"} {
		secret := strings.Trim(fmt.Sprintf(verb, []byte("secret")), "[]byte{}")
		is.True(!strings.Contains(out.String(), secret))
	}
	is.True(strings.Contains(out.String(), "keys.Options"))
}

// TestRun_SurvivesStorePanics covers the goroutines of a Service, where the
// application cannot recover. No error is cached.
func TestRun_SurvivesStorePanics(t *testing.T) {
	var log strings.Builder
	options := keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		is.NoErr(verify(t, s, issued.Raw))

		store.touch.before(func(context.Context) error { panic("a bug in Touch") })
		time.Sleep(2 * defaultFlushInterval)
		store.changes.before(func(context.Context) error { panic("a bug in Changes") })
		time.Sleep(time.Minute)
		is.True(s.Stats().LeaseAge >= defaultLease) // the cache is disabled
		is.NoErr(verify(t, s, issued.Raw))
		store.find.before(func(context.Context) error { panic("a bug in Find") })
		store.changes.set(nil)
		settle() // the entry has expired meanwhile
		err := verify(t, s, issued.Raw)
		is.True(errors.Is(err, keys.ErrUnavailable))
		is.True(strings.Contains(err.Error(), "a bug in Find"))
		is.True(strings.Contains(err.Error(), "service_test.go")) // the stack
		cause := errors.New("connection refused")
		store.find.fail(cause)
		for range 3 {
			err = verify(t, s, issued.Raw)
			is.True(errors.Is(err, keys.ErrUnavailable) && errors.Is(err, cause))
		}
		is.Equal(s.Stats().Unavailable, uint64(4))

		store.find.set(nil)
		store.touch.set(nil)
		is.NoErr(verify(t, s, issued.Raw))
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		is.True(time.Since(get(t, store, 1).LastUsedAt) < time.Minute) // the use remained pending
		finds := store.finds.Load()
		is.NoErr(verify(t, s, issued.Raw))
		is.Equal(store.finds.Load(), finds) // served from the cache
	})
	is := is.New(t)
	for _, text := range []string{"a bug in Changes", "a bug in Touch", "service_test.go"} {
		is.True(strings.Contains(log.String(), text))
	}
}

// The error of a condition may match ErrNotFound, as that of a record of the application does.
func TestUpdate_ReturnsErrorOfCondition(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Keys(), nil)
	issue(t, s, keys.Fields{})
	condition := fmt.Errorf("no such project: %w", keys.ErrNotFound)
	fails := func(*keys.Key) error { return condition }
	is.Equal(errorOf(s.Update(t.Context(), 1, keys.Fields{}, fails)), condition)
	is.Equal(errorOf(s.Rotate(t.Context(), 1, 0, fails)), condition)
	is.Equal(s.Delete(t.Context(), 1, fails), condition)
	is.Equal(s.Delete(t.Context(), 2, fails), keys.ErrNotFound)
	condition = errors.New("changed in the meantime")
	is.Equal(errorOf(s.Update(t.Context(), 1, keys.Fields{}, fails)), condition)
}

// TestService_RepeatedRevocationIsNotConfirmedEither repeats calls that have changed only a
// primary without its standby.
func TestService_RepeatedRevocationIsNotConfirmedEither(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	errUnconfirmed := errors.New("the standby is lost")
	unconfirmed := func(_ context.Context, next func() ([]keys.Key, error)) ([]keys.Key, error) {
		next()
		return nil, errUnconfirmed
	}
	store := newHookedStore()
	store.updated.set(unconfirmed)
	store.deleted.set(unconfirmed)
	s := newService(t, store, nil)
	id := issue(t, s, keys.Fields{}).Key.ID
	isActive := func(key *keys.Key) error {
		if !key.Active {
			return errors.New("changed in the meantime")
		}
		return nil
	}
	for range 2 {
		_, err := s.Update(t.Context(), id, keys.Fields{Active: new(false)}, isActive)
		is.True(errors.Is(err, errUnconfirmed))
	}
	for range 2 {
		is.True(errors.Is(s.Delete(t.Context(), id), errUnconfirmed))
	}
	is.True(errors.Is(errorOf(s.Rotate(t.Context(), id, 0)), errUnconfirmed))
}
