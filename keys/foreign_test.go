package keys_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func imported(raw string) keys.ImportedKey {
	return keys.ImportedKey{Digest: sha256.Sum256([]byte(raw)), Prefix: raw[:4]}
}

func TestImport_AcceptsForeignRawKeys(t *testing.T) {
	testRunning(t, keys.Options{ForeignKeys: true}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		own := issue(t, s, keys.Fields{})
		short, long := strings.Repeat("s", 16), "sk-"+strings.Repeat("~", 509)
		list := []keys.ImportedKey{imported(short), imported(long), imported("inactive 16 char")}
		list[1].Fields = keys.Fields{Name: new("old"), Scopes: scopes("a"), Owner: new("tenant 7")}
		list[2] = imported("inactive-16-char")
		list[2].Fields.Active = new(false)
		ids := must(s.Import(t.Context(), list))(t)
		is.Equal(ids, []int64{2, 3, 4})
		is.NoErr(verify(t, s, keys.RawKey(short)))
		key := must(s.Verify(t.Context(), long))(t)
		is.Equal(key.Mask, "sk-~...")
		is.Equal(key.Name, "old")
		is.Equal(key.Owner, "tenant 7")
		is.Equal(verify(t, s, "inactive-16-char"), keys.ErrInactive)

		time.Sleep(defaultFlushInterval + time.Millisecond) // the public key is written
		is.NoErr(verify(t, s, keys.RawKey(signToken(keys.RawKey(long), tokenPayload(3, time.Now().Add(time.Hour))))))

		finds := store.finds.Load()
		for _, raw := range []string{short[1:], long + "x", "sixteen blanks  ", "cbk_sixteen-characters", "cbt_sixteen-characters", "sixteen-ü-characters"} {
			is.Equal(verify(t, s, keys.RawKey(raw)), keys.ErrMalformed)
		}
		is.Equal(store.finds.Load(), finds)
		is.Equal(verify(t, newService(t, store, nil), keys.RawKey(short)), keys.ErrMalformed) // without the option
		is.Equal(verify(t, s, "another-16-chars"), keys.ErrUnknown)

		is.True(strings.HasPrefix(string(must(s.Rotate(t.Context(), 2, 0))(t).Raw), "cbk_"))
		is.Equal(verify(t, s, keys.RawKey(short)), keys.ErrUnknown)

		for _, test := range []struct {
			list []keys.ImportedKey
			want string
		}{
			{nil, "keys must be 1 to 1000"},
			{make([]keys.ImportedKey, 1001), "keys must be 1 to 1000"},
			{[]keys.ImportedKey{imported("free"), {}}, "keys[1].sha256 must not be zero"},
			{[]keys.ImportedKey{imported("free"), imported("free")}, "keys[1].sha256 must not be repeated"},
			{[]keys.ImportedKey{imported("free"), {Digest: own.Key.Digest}}, "keys[1].sha256 is that of another key"},
			{[]keys.ImportedKey{{Digest: keys.Digest{1}, Prefix: strings.Repeat("ä", 33)}}, "keys[0].keyPrefix must have at most 32 characters"},
			{[]keys.ImportedKey{{Digest: keys.Digest{1}, Fields: keys.Fields{Name: new(" ")}}}, "keys[0].name must not be empty"},
		} {
			is.Equal(errorOf(s.Import(t.Context(), test.list)).Error(), test.want)
		}
		_, err := s.Get(t.Context(), 5)
		is.Equal(err, keys.ErrNotFound)                                       // all or none
		ids, err = s.Import(t.Context(), []keys.ImportedKey{imported(short)}) // was rotated away
		is.NoErr(err)
		is.Equal(ids, []int64{5})
		is.NoErr(verify(t, s, keys.RawKey(short)))
	})
}

// TestImport_AgainEndsTokens imports a deleted key again while its page token is cached.
func TestImport_AgainEndsTokens(t *testing.T) {
	testRunning(t, keys.Options{ForeignKeys: true}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		const raw = "sk-sixteen-characters"
		ids := must(s.Import(t.Context(), []keys.ImportedKey{imported(raw)}))(t)
		token := issueToken(t, s, raw, keys.TokenFields{}).Raw
		is.NoErr(verify(t, s, token))
		is.NoErr(s.Delete(t.Context(), ids[0]))
		must(s.Import(t.Context(), []keys.ImportedKey{imported(raw)}))(t)
		is.NoErr(verify(t, s, raw))
		is.Equal(verify(t, s, token), keys.ErrUnknown)
	})
}

// Without the option, page tokens and links of a foreign key are accepted, and put the key
// into the cache.
func TestVerify_RejectsForeignRawKeysOfTokens(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		const raw = "sk-sixteen-characters"
		before := newService(t, store, &keys.Options{ForeignKeys: true})
		must(before.Import(t.Context(), []keys.ImportedKey{imported(raw)}))(t)
		token := issueToken(t, before, raw, keys.TokenFields{}).Raw
		for range 2 {
			is.NoErr(verify(t, s, token))
			is.Equal(verify(t, s, raw), keys.ErrMalformed)
		}
	})
}

func TestImport_AfterOverlap(t *testing.T) {
	testRunning(t, keys.Options{ForeignKeys: true}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		const raw = "sk-sixteen-characters"
		list := []keys.ImportedKey{imported(raw)}
		ids := must(s.Import(t.Context(), list))(t)
		rotate(t, s, ids[0], 10*time.Second)
		is.Equal(errorOf(s.Import(t.Context(), list)).Error(), "keys[0].sha256 is that of another key")
		time.Sleep(10 * time.Second)
		is.Equal(verify(t, s, raw), keys.ErrUnknown)
		ids = must(s.Import(t.Context(), list))(t)
		is.Equal(must(s.Verify(t.Context(), raw))(t).ID, ids[0])
	})
}

// TestImport_TokenOfSlowClock issues a token in a process whose clock is behind that of the
// one that has imported the key.
func TestImport_TokenOfSlowClock(t *testing.T) {
	testRunning(t, keys.Options{ForeignKeys: true}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		now := func() time.Time { return time.Now().Add(-5 * time.Second) }
		slow := startService(t, store, &keys.Options{ForeignKeys: true, Now: now})
		const raw = "sk-sixteen-characters"
		must(s.Import(t.Context(), []keys.ImportedKey{imported(raw)}))(t)
		is.NoErr(verify(t, s, issueToken(t, slow, raw, keys.TokenFields{}).Raw))
	})
}

func TestImport_NeedsTheOptionAndNoPepper(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, options := range []*keys.Options{nil, {ForeignKeys: true, Pepper: []byte("x")}} {
		_, err := newService(t, memory.New().Keys(), options).Import(t.Context(), []keys.ImportedKey{imported("some-raw-key-of-16")})
		is.True(errors.Is(err, keys.ErrInvalid))
	}
}

func TestRevokeRaw(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	testRunning(t, keys.Options{ForeignKeys: true, Logger: logger}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		first := issue(t, s, keys.Fields{})
		second := must(s.Rotate(t.Context(), 1, time.Hour))(t)
		other, expired, inactive := issue(t, s, keys.Fields{}), issue(t, s, keys.Fields{}), issue(t, s, keys.Fields{})
		must(s.UpdateMany(t.Context(), []int64{expired.Key.ID}, keys.Fields{ExpiresAt: new(time.Now())}))(t)
		must(s.Update(t.Context(), inactive.Key.ID, keys.Fields{Active: new(false)}))(t)
		token := issueToken(t, s, other.Raw, keys.TokenFields{}).Raw
		unknown := string(issue(t, newService(t, memory.New().Keys(), nil), keys.Fields{}).Raw)

		wrong := 0
		countWrong := func() error { wrong++; return nil } //nolint:unparam // of RevokeRaw
		revoke := func(raws ...string) int {
			t.Helper()
			return must(s.RevokeRaw(t.Context(), raws, countWrong))(t)
		}
		is.Equal(revoke(string(token), "x", unknown, unknown), 0)
		is.Equal(wrong, 2)
		is.Equal(revoke(make([]string, 1000)...), 0)
		is.NoErr(verify(t, s, other.Raw))

		denied := errors.New("denied")
		_, err := s.RevokeRaw(t.Context(), []string{string(other.Raw), unknown}, func() error { return denied })
		is.Equal(err, denied)
		is.NoErr(verify(t, s, other.Raw)) // nothing was revoked

		is.Equal(revoke(string(first.Raw), string(first.Raw)), 1)   // ends the overlap
		is.Equal(strings.Count(log.String(), "revoke raw keys"), 1) // not for those above, which no key has
		is.True(strings.Contains(log.String(), "keys=[1]\n"))
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		is.NoErr(verify(t, s, second.Raw))

		start := time.Now()
		is.Equal(revoke(string(second.Raw), string(other.Raw), string(expired.Raw), string(inactive.Raw)), 2)
		is.True(time.Since(start) >= defaultLease && time.Since(start) < 2*defaultLease) // one wait
		is.True(strings.Contains(log.String(), `keys="[1 2 3 4]"`))
		for _, raw := range []keys.RawKey{second.Raw, other.Raw, token} {
			is.Equal(verify(t, s, raw), keys.ErrInactive)
		}
		key := must(s.Update(t.Context(), expired.Key.ID, keys.Fields{ExpiresAt: new(time.Time{})}))(t)
		is.True(!key.Active) // although it had expired
		for _, raws := range [][]string{nil, make([]string, 1001)} {
			is.True(errors.Is(errorOf(s.RevokeRaw(t.Context(), raws, nil)), keys.ErrInvalid))
		}
	})
}

// TestRevokeRaw_WaitsForAnotherDeletion revokes a raw key whose key another process has
// just deleted, and which a third one still accepts.
func TestRevokeRaw_WaitsForAnotherDeletion(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issueCached(t, s).Raw
		deleted := make(chan error)
		go func() { deleted <- newService(t, store, nil).Delete(t.Context(), 1) }()
		synctest.Wait()
		is.NoErr(verify(t, s, raw)) // under a lease from before
		revoked := must(newService(t, store, nil).RevokeRaw(t.Context(), []string{string(raw)}, nil))(t)
		is.Equal(revoked, 0)
		is.Equal(verify(t, s, raw), keys.ErrUnknown)
		is.NoErr(<-deleted)
	})
}

// TestRevokeRaw_OfAnotherKey revokes a raw key that is cached as that of a deleted key, and
// has been imported again.
func TestRevokeRaw_OfAnotherKey(t *testing.T) {
	testRunning(t, keys.Options{ForeignKeys: true}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := "another-system-0001"
		load := func(s *keys.Service) {
			_, err := s.Import(t.Context(), []keys.ImportedKey{{Digest: sha256.Sum256([]byte(raw))}})
			is.NoErr(err)
		}
		load(s)
		settle()
		is.NoErr(verify(t, s, keys.RawKey(raw)))
		other := newService(t, store, &keys.Options{ForeignKeys: true})
		deleted := make(chan error)
		go func() { deleted <- other.Delete(t.Context(), 1) }()
		synctest.Wait()
		load(other)
		revoked, err := s.RevokeRaw(t.Context(), []string{raw}, nil)
		is.NoErr(err)
		is.Equal(revoked, 1)
		is.Equal(verify(t, s, keys.RawKey(raw)), keys.ErrInactive)
		is.NoErr(<-deleted)
	})
}

// TestUpdateMany_WaitsOnce revokes many keys on a shared store.
func TestUpdateMany_WaitsOnce(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		var ids []int64
		for range 1000 {
			ids = append(ids, issue(t, s, keys.Fields{}).Key.ID)
		}
		start := time.Now()
		changed := must(s.UpdateMany(t.Context(), ids, keys.Fields{Active: new(false)}))(t)
		is.Equal(changed, 1000)
		is.NoErr(s.DeleteMany(t.Context(), ids[:999]))
		is.True(time.Since(start) < 3*defaultLease)
		missing := new(keys.MissingError)
		_, err := s.UpdateMany(t.Context(), []int64{1000, 7}, keys.Fields{Active: new(true)})
		is.True(errors.As(err, &missing) && missing.ID == 7 && errors.Is(err, keys.ErrNotFound))
		is.True(errors.As(s.DeleteMany(t.Context(), []int64{1000, 7}), &missing))
		is.True(!must(s.Get(t.Context(), 1000))(t).Active)
	})
}
