package keys_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestKey_Allows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, scopes := range map[string]struct{ allowed, denied []string }{
		"*":                         {allowed: []string{"exports:read", "x", ""}},
		"":                          {denied: []string{"exports:read", "x", "", "*", " "}},
		"exports:read":              {[]string{"exports:read"}, []string{"exports:rea", "xports:read", "exports:", "", "exports:read "}},
		"symbols:read exports:read": {[]string{"symbols:read", "exports:read"}, []string{"symbols:read exports:read", "symbols:write", "", " "}},
		"* a":                       {[]string{"a"}, []string{"exports:read"}}, // edited by hand
		" a ":                       {nil, []string{"exports:read", ""}},
	} {
		key := keys.Key{Scopes: keys.ParseScopes(text)}
		is.Equal(key.Scopes.String(), text)
		for _, scope := range scopes.allowed {
			is.True(key.Allows(scope))
		}
		for _, scope := range scopes.denied {
			is.True(!key.Allows(scope))
		}
	}
	is.True(keys.Scopes{} == keys.ParseScopes("*"))
	is.Equal(keys.ParseScopes("*").List(), nil)
	is.Equal(keys.ParseScopes("").List(), []string{})
	is.Equal(keys.ParseScopes("b a").List(), []string{"b", "a"})
}

func TestNewScopes_RejectsInvalid(t *testing.T) {
	t.Parallel()
	for field, lists := range map[string][][]string{
		"scopes":    {strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6")},
		"scopes[0]": {{strings.Repeat("a", 65)}, {"a b"}, {"*"}, {"Exports:read"}, {"a\xff"}},
		"scopes[1]": {{"a", ""}, {"a", "a"}},
	} {
		for _, list := range lists {
			is := is.New(t)
			got, err := keys.NewScopes(list...)
			is.True(errors.Is(err, keys.ErrInvalid))
			is.True(strings.HasPrefix(err.Error(), field+" ")) // the field's name on the wire
			is.Equal(got, keys.Scopes{})
		}
	}
}

func scopes(list ...string) *keys.Scopes {
	out, err := keys.NewScopes(list...)
	if err != nil {
		panic(err)
	}
	return &out
}

func TestFields_OwnerAndScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Keys(), nil)
	key := issue(t, s, keys.Fields{}).Key
	is.Equal(key.Owner, "")
	is.Equal(key.Scopes, keys.Scopes{})
	list := []string{"b", "a:b.c_d-0"}
	key = issue(t, s, keys.Fields{Owner: new("tenant"), Scopes: scopes(list...)}).Key
	is.Equal(key.Owner, "tenant")
	is.Equal(key.Scopes.List(), list)

	same := must(s.Update(t.Context(), key.ID, keys.Fields{Owner: new("tenant"), Scopes: scopes(list...)}))(t)
	is.Equal(same, key) // equal values change nothing, not even UpdatedAt
	key = must(s.Update(t.Context(), key.ID, keys.Fields{Owner: new(""), Scopes: &keys.Scopes{}}))(t)
	is.Equal(key.Owner, "")
	is.Equal(key.Scopes.List(), nil)
	key = must(s.Update(t.Context(), key.ID, keys.Fields{Scopes: scopes()}))(t)
	is.Equal(key.Scopes.List(), []string{})

	for _, owner := range []string{"", strings.Repeat("é", 256), "a\x00", "\xff"} {
		_, err := s.List(t.Context(), keys.Filter{Owner: &owner}, keys.Range{})
		is.True(errors.Is(err, keys.ErrInvalid))
	}
}

// TestUpdate_NarrowingIsRevoking checks that no process permits what an update has
// taken away once it has returned.
func TestUpdate_NarrowingIsRevoking(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{Owner: new("a")})
		settle()
		permit := func(key *keys.Key) error {
			if !key.Allows("exports:read") {
				return errors.New("no scope")
			}
			return nil
		}
		for _, list := range [][]string{{"exports:read"}, {"symbols:read"}, {}} {
			key := must(s.Verify(t.Context(), string(issued.Raw)))(t)
			update(t, other, key.ID, keys.Fields{Scopes: scopes(list...)})
			key = must(s.Verify(t.Context(), string(issued.Raw)))(t)
			is.Equal(key.Scopes.List(), list)
		}
		before := get(t, s, 1)
		is.Equal(errorOf(s.VerifyFunc(t.Context(), string(issued.Raw), permit)).Error(), "no scope")
		after := get(t, s, 1)
		is.Equal(after, before) // it is not a use
		is.Equal(s.Stats().Rejected, uint64(1))

		update(t, other, 1, keys.Fields{Owner: new("b")})
		key := must(s.Verify(t.Context(), string(issued.Raw)))(t)
		is.Equal(key.Owner, "b")
	})
}

func TestScopes_AreTheSameAfterJSON(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, list := range [][]string{nil, {}, {"symbols:read"}, {"a", "b"}} {
		var want, got keys.Key
		if list != nil {
			want.Scopes = must(keys.NewScopes(list...))(t)
		}
		text := must(json.Marshal(want))(t)
		is.NoErr(json.Unmarshal(text, &got))
		is.Equal(got.Scopes, want.Scopes)
	}
}

func TestService_RejectsScopesOfAnyText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Keys(), nil)
	raw := issue(t, s, keys.Fields{}).Raw
	for _, text := range []string{"Symbols:Read", "a,b", "a a", "a\tb", "a  b", "\xff", "\x00"} {
		var fields keys.Fields
		fields.Scopes = new(keys.Scopes)
		is.NoErr(fields.Scopes.UnmarshalText([]byte(text)))
		is.True(errors.Is(errorOf(s.Create(t.Context(), fields)), keys.ErrInvalid))
		is.True(errors.Is(errorOf(s.Update(t.Context(), 1, fields)), keys.ErrInvalid))
		_, err := s.IssueToken(t.Context(), string(raw), keys.TokenFields{Scopes: keys.ParseScopes(text)})
		is.True(errors.Is(err, keys.ErrInvalid))
	}
}
