package keys_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
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
	_, err := keys.NewService(nil, nil)
	is.True(err != nil)
	_, err = keys.NewService(store, &keys.Options{Prefix: strings.Repeat("a", 32)})
	is.NoErr(err)
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
			_, err = s.Update(t.Context(), 1, c.fields)
			is.True(errors.Is(err, keys.ErrInvalid))
		})
	}
}
