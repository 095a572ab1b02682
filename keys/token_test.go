package keys_test

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// signToken returns a page token with a payload, as a holder of the raw key makes one
// without this package.
func signToken(raw keys.RawKey, payload string) string {
	seed, err := hkdf.Key(sha256.New, []byte(raw), nil, "canvasback page token", ed25519.SeedSize)
	if err != nil {
		panic(err)
	}
	signed := "cbt_" + base64.RawURLEncoding.EncodeToString([]byte(payload))
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// tokenPayload returns the payload of a token without restrictions.
func tokenPayload(id int64, expires time.Time) string {
	return fmt.Sprintf(`{"k":%d,"e":%d}`, id, expires.Unix())
}

func issueToken(tb testing.TB, s *keys.Service, raw keys.RawKey, fields keys.TokenFields) keys.Issued {
	return must(s.IssueToken(tb.Context(), string(raw), fields))(tb)
}

func TestToken_ReturnsItsKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := testTime.Add(time.Millisecond)
	s := newService(t, memory.New().Keys(), &keys.Options{Now: func() time.Time { return now }})
	raw := issue(t, s, keys.Fields{Name: new("viewer"), Scopes: scopes("a", "b", "c")}).Raw

	issued := issueToken(t, s, raw, keys.TokenFields{Scopes: *scopes("c", "a"), Sources: []string{"https://cad.example/1"}})
	is.True(strings.HasPrefix(string(issued.Raw), "cbt_"))
	is.Equal(fmt.Sprint(issued.Raw), "[raw key]")
	digest := sha256.Sum256([]byte(issued.Raw))
	want := keys.Token{ID: hex.EncodeToString(digest[:4]), ExpiresAt: testTime.Add(time.Hour + time.Second), Sources: []string{"https://cad.example/1"}}
	is.Equal(*issued.Key.Token, want)

	key := must(s.Verify(t.Context(), string(issued.Raw)))(t)
	is.Equal(*key.Token, want)
	is.Equal(key.Name, "viewer")
	is.Equal(key.Scopes.List(), []string{"c", "a"})
	is.Equal(key.LastUsedAt, now)
	stored := get(t, s, key.ID)
	is.Equal(stored.UseCount, int64(2)) // of the token, and to make it
	is.Equal(stored.Scopes.List(), []string{"a", "b", "c"})

	update(t, s, key.ID, keys.Fields{Scopes: scopes("b", "a")})
	key = must(s.Verify(t.Context(), string(issued.Raw)))(t)
	is.Equal(key.Scopes.List(), []string{"a"}) // what both permit
}

func TestIssueToken_Bounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := testTime
	s := newService(t, memory.New().Keys(), &keys.Options{Now: func() time.Time { return now }, Prefix: "acme"})
	raw := issue(t, s, keys.Fields{Scopes: scopes("a"), ExpiresAt: new(testTime.Add(90*time.Minute + time.Millisecond))}).Raw
	for _, test := range []struct {
		fields keys.TokenFields
		want   string // an error, or the lifetime
	}{
		{keys.TokenFields{}, "1h0m0s"},
		{keys.TokenFields{Lifetime: time.Second, Scopes: *scopes()}, "1s"},
		{keys.TokenFields{Lifetime: 24 * time.Hour}, "1h30m0s"}, // that of the key
		{keys.TokenFields{Lifetime: time.Second - 1}, "expiresInSeconds must be from 1 to 86400"},
		{keys.TokenFields{Lifetime: 24*time.Hour + 1}, "expiresInSeconds must be from 1 to 86400"},
		{keys.TokenFields{Scopes: *scopes("a", "b")}, "scopes must not exceed those of the API key"},
		{keys.TokenFields{Sources: []string{}}, "sources must be 1 to 100"},
		{keys.TokenFields{Sources: make([]string, 101)}, "sources must be 1 to 100"},
		{keys.TokenFields{Sources: []string{"x", " "}}, "sources[1] must be text without NUL, and not empty"},
		{keys.TokenFields{Sources: []string{"\x00"}}, "sources[0] must be text without NUL, and not empty"},
		{keys.TokenFields{Sources: []string{"\xff"}}, "sources[0] must be text without NUL, and not empty"},
		{keys.TokenFields{Sources: []string{strings.Repeat("x", 2900)}}, "1h0m0s"},
		{keys.TokenFields{Sources: []string{strings.Repeat("x", 3000)}}, "sources must fit into a token of 4096 characters"},
	} {
		issued, err := s.IssueToken(t.Context(), string(raw), test.fields)
		if err != nil {
			is.Equal(err.Error(), test.want)
			continue
		}
		is.Equal(issued.Key.Token.ExpiresAt.Sub(now).String(), test.want)
		is.True(strings.HasPrefix(string(issued.Raw), "acmet_"))
		_, err = s.IssueToken(t.Context(), string(issued.Raw), keys.TokenFields{})
		is.Equal(err.Error(), "a page token cannot make page tokens")
	}
	rotated := rotate(t, s, 1, time.Minute)
	is.Equal(issueToken(t, s, raw, keys.TokenFields{}).Key.Token.ExpiresAt, testTime.Add(time.Minute)) // the end of the overlap
	is.Equal(issueToken(t, s, rotated.Raw, keys.TokenFields{}).Key.Token.ExpiresAt, testTime.Add(time.Hour))
}

func TestToken_ChecksInOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := testTime
	s := newService(t, memory.New().Keys(), &keys.Options{Now: func() time.Time { return now }})
	issued := issue(t, s, keys.Fields{ExpiresAt: new(testTime.Add(2 * time.Hour))})
	token := func(lifetime time.Duration) string {
		return signToken(issued.Raw, tokenPayload(1, testTime.Add(lifetime)))
	}
	check := func(token string) error { return errorOf(s.Verify(t.Context(), token)) }
	is.NoErr(check(token(86460 * time.Second)))
	is.Equal(check(token(86461*time.Second)), keys.ErrMalformed)
	is.Equal(check(token(0)), keys.ErrTokenExpired) // from the very instant
	is.NoErr(check(token(time.Second)))

	update(t, s, 1, keys.Fields{Active: new(false)})
	is.Equal(check(token(time.Hour)), keys.ErrInactive)
	is.Equal(check(token(86461*time.Second)), keys.ErrMalformed) // comes before the state
	is.Equal(check(token(0)), keys.ErrTokenExpired)              // comes before the state
	update(t, s, 1, keys.Fields{Active: new(true)})
	now = testTime.Add(2 * time.Hour)
	is.Equal(check(token(3*time.Hour)), keys.ErrExpired)
	now = testTime

	other := issue(t, s, keys.Fields{})
	is.Equal(check(signToken(other.Raw, tokenPayload(1, testTime.Add(time.Hour)))), keys.ErrUnknown) // signed by another key
	is.Equal(check(signToken(other.Raw, tokenPayload(9, testTime.Add(time.Hour)))), keys.ErrUnknown)
	is.NoErr(check(signToken(other.Raw, tokenPayload(2, testTime.Add(time.Hour)))))
	is.NoErr(s.Delete(t.Context(), 2))
	is.Equal(check(signToken(other.Raw, tokenPayload(2, testTime.Add(time.Hour)))), keys.ErrUnknown)
}

func TestToken_EndsWithItsRawKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := testTime
	s := newService(t, memory.New().Keys(), &keys.Options{Now: func() time.Time { return now }})
	first := issue(t, s, keys.Fields{})
	token := issueToken(t, s, first.Raw, keys.TokenFields{}).Raw
	later := keys.RawKey(signToken(first.Raw, tokenPayload(1, testTime.Add(2*time.Hour)))) // is never used before

	second := rotate(t, s, 1, time.Minute)
	is.NoErr(verify(t, s, token))
	key := must(s.Verify(t.Context(), signToken(second.Raw, tokenPayload(1, testTime.Add(time.Hour)))))(t)
	is.Equal(key.Digest, second.Key.Digest)
	now = now.Add(time.Minute)
	is.Equal(verify(t, s, token), keys.ErrUnknown) // the overlap is over
	is.Equal(verify(t, s, later), keys.ErrUnknown)

	third := rotate(t, s, 1, 0)
	is.Equal(verify(t, s, keys.RawKey(signToken(second.Raw, tokenPayload(1, testTime.Add(time.Hour))))), keys.ErrUnknown)
	is.NoErr(verify(t, s, keys.RawKey(signToken(third.Raw, tokenPayload(1, testTime.Add(time.Hour))))))
}

func TestToken_RejectsOtherForms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newHookedStore()
	s := newService(t, store, &keys.Options{Now: func() time.Time { return testTime }})
	raw := issue(t, s, keys.Fields{}).Raw
	end := testTime.Add(time.Hour).Unix()
	valid := signToken(raw, fmt.Sprintf(` {"x":["https://cad.example/null"], "s":["a","b"],"e":%d ,"k":1}`, end)) // in any order
	key := must(s.Verify(t.Context(), valid))(t)
	is.Equal(key.Token.Sources, []string{"https://cad.example/null"})
	is.Equal(key.Scopes.List(), []string{"a", "b"})
	finds := store.finds.Load()

	for _, members := range []string{
		``, `"s":null`, `"x":null`, `"s":"a"`, `"x":"a"`, `"s":[null]`, `"x":[null]`, `"s":[1]`, `"x":[]`, `"x":[""]`, `"x":[" "]`, `"x":["\u0000"]`,
		`"s":["A"]`, `"s":[""]`, `"s":["a","a"]`, `"s":["a b"]`, `"y":1`, `"S":["a"]`, `"":0`, `"k":1`, `"e":1`, `"s":["a"],"s":["a"]`, `"x":["a"],"x":["a"]`,
	} {
		if members != "" {
			members = "," + members
		} else {
			members = "}{"
		}
		payload := fmt.Sprintf(`{"k":1,"e":%d%s}`, end, members)
		t.Logf("%.100q", payload)
		is.Equal(verify(t, s, keys.RawKey(signToken(raw, payload))), keys.ErrMalformed)
	}
	for _, payload := range []string{
		`{}`, `[]`, `null`, ``, `x`, `{"k":1}`, fmt.Sprintf(`{"e":%d}`, end), fmt.Sprintf(`{"k":null,"e":%d}`, end), `{"k":1,"e":null}`,
		fmt.Sprintf(`{"k":1.0,"e":%d}`, end), fmt.Sprintf(`{"k":1,"e":%d.5}`, end), fmt.Sprintf(`{"k":1,"e":%de0}`, end),
		fmt.Sprintf(`{"k":"1","e":%d}`, end), fmt.Sprintf(`{"k":-1,"e":%d}`, end), fmt.Sprintf(`{"k":0,"e":%d}`, end),
		`{"k":1,"e":9223372036854775807}`, `{"k":1,"e":4611686018427387904}`,
		fmt.Sprintf(`{"k":1,"e":%d}x`, end), `{"k":1,"e":-1}`, fmt.Sprintf(`{"k":1,"e":%d,"x":["%s"]}`, end, strings.Repeat("x", 4096)),
		fmt.Sprintf(`{"k":1,"e":%d,"x":[%s"x"]}`, end, strings.Repeat(`"x",`, 100)), fmt.Sprintf("{\"k\":1,\"e\":%d,\"x\":[\"\xff\"]}", end),
	} {
		t.Logf("%.100q", payload)
		is.Equal(verify(t, s, keys.RawKey(signToken(raw, payload))), keys.ErrMalformed)
	}
	payload, signature, _ := strings.Cut(valid, ".")
	last := len(signature) - 1
	for _, text := range []string{
		payload, payload + ".", "." + signature, payload + "." + signature + "=", payload + "." + signature + "\n", payload + "." + signature[:last],
		payload + "." + signature + "." + signature, payload + "=." + signature, "cbk_" + valid[4:], "cbtt_" + valid[4:], valid + " ", " " + valid,
		payload + "." + signature[:last] + string(signature[last]+1), // a stray bit
		payload + "." + strings.Repeat("!", len(signature)),
	} {
		t.Logf("%q", text)
		is.Equal(verify(t, s, keys.RawKey(text)), keys.ErrMalformed)
	}
	is.Equal(store.finds.Load(), finds) // none has read the store
	forged := "A" + signature[1:]
	if forged == signature {
		forged = "B" + signature[1:]
	}
	for _, text := range []string{
		payload + "\n." + signature, "cbt_" + payload[4:len(payload)-4] + "\n" + payload[len(payload)-4:] + "." + signature,
		payload + "." + forged, signToken(raw, "{\"k\":1,\"e\":1 }")[:30] + valid[30:],
	} {
		t.Logf("%q", text)
		is.True(verify(t, s, keys.RawKey(text)) != nil)
	}
}

// TestToken_KeyOfEarlierVersion checks tokens of a key whose public key the store does
// not have, as after an upgrade.
func TestToken_KeyOfEarlierVersion(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		first := issue(t, s, keys.Fields{})
		second := rotate(t, s, 1, time.Hour)
		before := change(t, store, 1, forgetPublicKeys)
		changes := must(store.Changes(t.Context(), 0))(t)
		forged := "." + base64.RawURLEncoding.EncodeToString(append([]byte{1}, make([]byte, 63)...)) // verifies every fourth text by a key of zeros
		for i := range time.Duration(64) {
			text, _, _ := strings.Cut(signToken("", tokenPayload(1, time.Now().Add(time.Hour+i*time.Second))), ".")
			is.Equal(verify(t, s, keys.RawKey(text+forged)), keys.ErrUnknown)
		}
		for _, raw := range []keys.RawKey{first.Raw, second.Raw} {
			token := keys.RawKey(signToken(raw, tokenPayload(1, time.Now().Add(time.Hour))))
			is.Equal(verify(t, s, token), keys.ErrUnknown)
			is.NoErr(verify(t, s, raw))
			time.Sleep(defaultFlushInterval + time.Millisecond)
			is.NoErr(verify(t, s, token)) // written with the uses
		}
		key := get(t, store, 1)
		is.Equal(key.UpdatedAt, before.UpdatedAt)
		is.Equal(key.PublicKey, second.Key.PublicKey)
		is.Equal(key.PreviousPublicKey, first.Key.PublicKey)
		is.Equal(must(store.Changes(t.Context(), 0))(t).Epoch, changes.Epoch)

		raw := issue(t, s, keys.Fields{}).Raw
		change(t, store, 2, forgetPublicKeys)
		token := issueToken(t, s, raw, keys.TokenFields{})
		is.NoErr(verify(t, newService(t, store, nil), token.Raw)) // in another process, at once

		store.touch.fail(errors.New("disk full"))
		raw = issue(t, s, keys.Fields{}).Raw
		change(t, store, 3, forgetPublicKeys)
		_, err := s.IssueToken(t.Context(), string(raw), keys.TokenFields{})
		is.True(errors.Is(err, keys.ErrUnavailable)) // rather than a token that is not accepted
		store.touch.set(nil)
	})
}

// TestToken_PepperHidesPublicKeys writes a chosen public key into the store.
func TestToken_PepperHidesPublicKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	plain := newService(t, store, nil)
	peppered := newService(t, store, &keys.Options{Pepper: []byte("first")})
	repeppered := newService(t, store, &keys.Options{Pepper: []byte("second"), PreviousPeppers: [][]byte{[]byte("first")}})
	expires := time.Now().Add(time.Hour)
	own := issue(t, plain, keys.Fields{}) // of the attacker, who can compute its public key
	for id, s := range []*keys.Service{plain, peppered, repeppered} {
		id := int64(2 + id)
		issued := issue(t, s, keys.Fields{})
		token := keys.RawKey(signToken(issued.Raw, tokenPayload(id, expires)))
		is.NoErr(verify(t, s, token))
		is.True(s == plain || verify(t, repeppered, token) == nil)
		change(t, store, id, func(key *keys.Key) { key.PublicKey = own.Key.PublicKey })
		forged := keys.RawKey(signToken(own.Raw, tokenPayload(id, expires)))
		if s == plain {
			is.NoErr(verify(t, s, forged)) // the pepper is what prevents it
			continue
		}
		is.Equal(verify(t, s, forged), keys.ErrUnknown)
	}
}

func TestToken_CacheHoldsASixteenthOfOneKey(t *testing.T) {
	const size = 256
	testRunning(t, keys.Options{CacheSize: size}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		expires := time.Now().Add(time.Hour)
		other := keys.RawKey(signToken(issue(t, s, keys.Fields{}).Raw, tokenPayload(1, expires)))
		is.NoErr(verify(t, s, other))
		raw := issue(t, s, keys.Fields{}).Raw
		token := func(i int) keys.RawKey {
			return keys.RawKey(signToken(raw, tokenPayload(2, expires.Add(time.Duration(i)*time.Second))))
		}
		for i := range size {
			is.NoErr(verify(t, s, token(i)))
		}
		finds := store.finds.Load()
		is.NoErr(verify(t, s, other))
		is.Equal(store.finds.Load(), finds) // is still cached
		cached := 0
		for i := size - 1; i >= 0; i-- { // the last ones are cached
			before := store.finds.Load()
			is.NoErr(verify(t, s, token(i)))
			if store.finds.Load() == before {
				cached++
			}
		}
		t.Logf("%d cached", cached)
		is.True(cached > 0 && cached <= size/16)
	})
}

// TestToken_ForgedReadsOnce checks that a forged token costs one read of the store.
func TestToken_ForgedReadsOnce(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issue(t, s, keys.Fields{})
		other := issue(t, s, keys.Fields{}).Raw
		before := store.finds.Load()
		for _, id := range []int64{1, 9} {
			is.Equal(verify(t, s, keys.RawKey(signToken(other, tokenPayload(id, time.Now().Add(time.Hour))))), keys.ErrUnknown)
		}
		is.Equal(store.finds.Load(), before+2)
	})
}

func TestVerifyFunc_SkipUse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Keys(), nil)
	raw := issue(t, s, keys.Fields{}).Raw
	key := must(s.VerifyFunc(t.Context(), string(raw), func(*keys.Key) error { return keys.SkipUse }))(t)
	is.Equal(key.ID, int64(1))
	key = get(t, s, 1)
	is.Equal(key.UseCount, int64(0))
	is.True(key.LastUsedAt.IsZero())
}

// TestIssueToken_BothPublicKeysAreUnknown issues a token for a key that a process of an earlier
// version has rotated, while the public key of the previous raw key waits to be written.
func TestIssueToken_BothPublicKeysAreUnknown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Keys()
	s := newService(t, store, nil)
	previous := issue(t, s, keys.Fields{}).Raw
	current := rotate(t, s, 1, time.Hour).Raw
	change(t, store, 1, forgetPublicKeys)
	is.NoErr(verify(t, s, previous))
	is.NoErr(verify(t, s, issueToken(t, s, current, keys.TokenFields{}).Raw))
}
