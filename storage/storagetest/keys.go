package storagetest

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

var keyChecks = []check{
	{"Insert assigns new ids, ascending", keyIDs},
	{"keys are stored unchanged", keyRoundTrip},
	{"text is stored unchanged", keyTexts},
	{"times are stored to the millisecond, in UTC", keyTimes},
	{"methods return ErrNotFound", keyNotFound},
	{"Update stores the changes of the function", keyUpdate},
	{"Update stores a change of any field", keyUpdateField},
	{"an error of the function leaves the key unchanged", keyUpdateFails},
	{"Update ignores changes of ID, CreatedAt, LastUsedAt and UseCount", keyUpdateIgnoresFields},
	{"Delete removes one key", keyDelete},
	{"Import stores all keys or none", keyImport},
	{"Update and Delete of several keys are atomic", keyMany},
	{"Update and Delete see and return all fields", keyWhole},
	{"methods accept 1,000 keys", keyThousand},
	{"Find uses the current digest", keyFind},
	{"Find uses the previous digest", keyFindPrevious},
	{"FindID returns what Find does", keyFindID},
	{"Touch stores public keys", keyTouchPublicKey},
	{"Touch counts uses by day", keyUsage},
	{"List selects by owner, after an id, up to a limit", keyFilter},
	{"Touch only moves LastUsedAt forward", keyTouch},
	{"Touch adds to UseCount", keyTouchCounts},
	{"Touch ignores uses of other keys", keyTouchIdentity},
	{"Touch replaces a LastUsedAt in the future", keyTouchFuture},
	{"ids are not reused", keyIDsNotReused},
	{"keys are not shared with the caller", keyValues},
	{"keys persist", keyPersists},
	{"Shared reports whether the storage can be opened twice", keyShared},
}

// newKey returns a key with a digest that is derived from its name.
func newKey(name string) keys.Key {
	return keys.Key{
		Name:      name,
		Prefix:    "cbk_abcdef",
		Mask:      "cbk_abcdef****uvwx",
		Digest:    sha256.Sum256([]byte(name)),
		Active:    true,
		CreatedAt: testTime,
		UpdatedAt: testTime,
	}
}

func insertKey(t testing.TB, s Storage, name string) keys.Key {
	t.Helper()
	return storeKey(t, s, newKey(name))
}

func storeKey(t testing.TB, s Storage, key keys.Key) keys.Key {
	t.Helper()
	stored, err := s.Keys().Insert(t.Context(), key)
	must(t, err)
	return stored
}

func listKeys(t testing.TB, s Storage) keys.Page {
	t.Helper()
	page, err := s.Keys().List(t.Context(), keys.Filter{}, keys.Range{})
	must(t, err)
	return page
}

// insertUsedKey stores a key that has a value in each field, but is inactive.
func insertUsedKey(t testing.TB, s Storage) keys.Key {
	t.Helper()
	key := newKey("used")
	key.Owner, key.Scopes, key.ExpiresAt, key.Active = "owner", keys.ParseScopes("a b"), testTime.Add(time.Hour), false
	key.PreviousDigest, key.PreviousExpiresAt = newKey("previous").Digest, testTime.Add(time.Minute)
	key.PublicKey, key.PreviousPublicKey = keys.PublicKey{1}, keys.PublicKey{2}
	key = storeKey(t, s, key)
	must(t, s.Keys().Touch(t.Context(), []keys.Use{useOf(key, testTime)}, testTime))
	key.UseCount, key.LastUsedAt = 1, testTime
	wantKey(t, s, key)
	return key
}

func deleteKey(t testing.TB, s Storage, id int64) error {
	_, err := DeleteKey(t.Context(), s.Keys(), id)
	return err
}

// useOf returns one use of a key.
func useOf(key keys.Key, at time.Time) keys.Use {
	return keys.Use{ID: key.ID, CreatedAt: key.CreatedAt, At: at, Count: 1}
}

// wantKey checks the results of Get, Find and List for a key.
func wantKey(t testing.TB, s Storage, want keys.Key) {
	t.Helper()
	got, err := s.Keys().Get(t.Context(), want.ID)
	must(t, err)
	wantEqual(t, "Get returns", got, want)
	for _, digest := range []keys.Digest{want.Digest, want.PreviousDigest} {
		if digest == (keys.Digest{}) {
			continue
		}
		got, err = s.Keys().Find(t.Context(), digest)
		must(t, err)
		wantEqual(t, "Find returns", got, want)
	}
	all := listKeys(t, s)
	if !slices.Contains(all.Keys, want) {
		t.Errorf("List returns %+v, want it to contain %+v", all, want)
	}
}

func keyIDs(t *testing.T, s Harness) {
	last := int64(0)
	var want []keys.Key
	for _, name := range []string{"first", "second", "third"} {
		key := newKey(name)
		key.ID, key.UseCount = 1, 7 // ignored
		stored := storeKey(t, s, key)
		wantEqual(t, "Insert returns UseCount", stored.UseCount, 0)
		if stored.ID <= last {
			t.Errorf("Insert assigns id %d after %d", stored.ID, last)
		}
		last = stored.ID
		want = append(want, stored)
	}
	all := listKeys(t, s)
	wantList(t, "List returns", all.Keys, want)
}

func keyRoundTrip(t *testing.T, s Harness) {
	all := listKeys(t, s)
	if len(all.Keys) != 0 || all.More {
		t.Errorf("List of a new storage returns %+v", all)
	}
	for _, active := range []bool{true, false} {
		key := newKey(strconv.FormatBool(active))
		key.Name = "both have this name"
		key.Active = active
		key.Owner, key.Scopes = "tenant 1", keys.ParseScopes("exports:read symbols:read")
		key.PreviousDigest = newKey("previous" + key.Name + strconv.FormatBool(active)).Digest
		key.PreviousExpiresAt = testTime.Add(time.Millisecond)
		key.ExpiresAt = testTime.Add(time.Hour)
		key.LastUsedAt = testTime.Add(time.Minute)
		key.UpdatedAt = testTime.Add(time.Second)
		stored := storeKey(t, s, key)
		key.ID = stored.ID
		wantEqual(t, "Insert returns", stored, key)
		wantKey(t, s, key)
	}
}

func keyTexts(t *testing.T, s Harness) {
	for _, text := range sampleTexts {
		key := newKey(text)
		key.Prefix, key.Mask, key.Owner = text, text, text
		key.Scopes = keys.ParseScopes(strings.Repeat(" ", len(key.Name)%2)) // empty, or a space
		stored := storeKey(t, s, key)
		key.ID = stored.ID
		got, err := s.Keys().Get(t.Context(), key.ID)
		must(t, err)
		wantEqual(t, "Get returns", got, key)
	}
}

func keyTimes(t *testing.T, s Harness) {
	wantUTC := func(key keys.Key) {
		for _, at := range []time.Time{key.CreatedAt, key.UpdatedAt, key.ExpiresAt, key.LastUsedAt, key.PreviousExpiresAt} {
			if at.Location() != time.UTC {
				t.Errorf("a time is in %v, want UTC", at.Location())
			}
		}
	}
	key := newKey("key")
	key.CreatedAt = times[0]
	key = storeKey(t, s, key)
	if !key.ExpiresAt.IsZero() || !key.LastUsedAt.IsZero() {
		t.Errorf("Insert returns %+v, want no expiry and no last use", key)
	}
	wantUTC(key)
	wantKey(t, s, key)
	for _, at := range times {
		want := newKey(at.String())
		want.CreatedAt, want.UpdatedAt, want.ExpiresAt, want.LastUsedAt, want.PreviousExpiresAt = at, at, at, at, at
		want.PreviousDigest = newKey("previous of " + at.String()).Digest
		stored := storeKey(t, s, want)
		want.ID = stored.ID
		wantKey(t, s, want)
		wantUTC(stored)

		key, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
			key.ExpiresAt, key.UpdatedAt, key.PreviousExpiresAt = at, at, at
			key.PreviousDigest = newKey("previous").Digest
			return nil
		})
		must(t, err)
		must(t, s.Keys().Touch(t.Context(), []keys.Use{useOf(key, at)}, at))
		key.LastUsedAt = at
		key.UseCount++
		wantKey(t, s, key)
	}
	key, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		key.ExpiresAt, key.PreviousExpiresAt, key.PreviousDigest = time.Time{}, time.Time{}, keys.Digest{}
		return nil
	})
	must(t, err)
	if !key.ExpiresAt.IsZero() || !key.PreviousExpiresAt.IsZero() {
		t.Errorf("Update returns expiry %v, want none", key.ExpiresAt)
	}
	wantKey(t, s, key)
}

func keyNotFound(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	for _, id := range []int64{key.ID + 1, 0, -1, 1<<63 - 1} {
		_, err := s.Keys().Get(t.Context(), id)
		wantError(t, err, keys.ErrNotFound)
		_, err = UpdateKey(t.Context(), s.Keys(), id, func(*keys.Key) error { return nil })
		wantError(t, err, keys.ErrNotFound)
		wantError(t, deleteKey(t, s, id), keys.ErrNotFound)
		must(t, s.Keys().Touch(t.Context(), []keys.Use{{ID: id, CreatedAt: key.CreatedAt, At: testTime, Count: 1}}, testTime))
	}
	_, err := s.Keys().Find(t.Context(), keys.Digest{})
	wantError(t, err, keys.ErrNotFound)
	wantKey(t, s, key)
}

func keyUpdate(t *testing.T, s Harness) {
	other := insertKey(t, s, "other")
	key := insertKey(t, s, "key")
	want := key
	want.Name, want.Prefix, want.Mask = "renamed", "new_abcdef", "new_abcdef****uvwx"
	want.Digest[0]++
	want.PreviousDigest, want.PreviousExpiresAt = key.Digest, testTime.Add(time.Minute)
	want.Owner, want.Scopes = "tenant", keys.ParseScopes("")
	want.Active = false
	want.ExpiresAt, want.UpdatedAt = testTime.Add(time.Hour), testTime.Add(time.Second)
	for range 2 { // the second call changes nothing
		got, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(current *keys.Key) error {
			wantEqual(t, "the function is called with", *current, key)
			*current = want
			return nil
		})
		must(t, err)
		wantEqual(t, "Update returns", got, want)
		wantKey(t, s, want)
		key = want
	}
	wantKey(t, s, other)
}

// keyUpdateField changes one field at a time.
func keyUpdateField(t *testing.T, s Harness) {
	key := insertUsedKey(t, s)
	for _, change := range []func(*keys.Key){
		func(key *keys.Key) { key.Name = "new" },
		func(key *keys.Key) { key.Prefix = "new" },
		func(key *keys.Key) { key.Mask = "new" },
		func(key *keys.Key) { key.Owner = "new" },
		func(key *keys.Key) { key.Scopes = keys.ParseScopes("new") },
		func(key *keys.Key) { key.Active = true },
		func(key *keys.Key) { key.ExpiresAt = testTime.Add(time.Millisecond) },
		func(key *keys.Key) { key.UpdatedAt = testTime.Add(time.Millisecond) },
		func(key *keys.Key) { key.PreviousExpiresAt = testTime.Add(time.Millisecond) },
		func(key *keys.Key) { key.PublicKey[1] = 3 },
		func(key *keys.Key) { key.PreviousPublicKey[1] = 4 },
	} {
		change(&key)
		ids := []int64{key.ID + 1, key.ID}
		got, err := s.Keys().Update(t.Context(), ids, func(list []keys.Key) error { change(&list[0]); return nil })
		must(t, err)
		wantList(t, "Update returns", got, []keys.Key{key})
		wantList(t, "the argument of Update is", ids, []int64{key.ID + 1, key.ID})
		wantKey(t, s, key)
	}
}

func keyUpdateFails(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	before := epoch(t, s)
	_, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		*key = keys.Key{Name: "altered"}
		return errCallback
	})
	wantError(t, err, errCallback)
	wantKey(t, s, key)
	wantEqual(t, "the epoch is", epoch(t, s), before)
}

func keyUpdateIgnoresFields(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	must(t, s.Keys().Touch(t.Context(), []keys.Use{useOf(key, testTime)}, testTime))
	got, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		key.ID += 7
		key.Name = "renamed"
		key.CreatedAt = testTime.Add(time.Hour)
		key.LastUsedAt, key.UseCount = time.Time{}, 7
		return nil
	})
	must(t, err)
	key.Name, key.LastUsedAt, key.UseCount = "renamed", testTime, 1
	wantEqual(t, "Update returns", got, key)
	wantKey(t, s, key)
}

func keyDelete(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	deleted, err := DeleteKey(t.Context(), s.Keys(), key.ID)
	must(t, err)
	wantEqual(t, "Delete returns", deleted, key)
	_, err = s.Keys().Get(t.Context(), key.ID)
	wantError(t, err, keys.ErrNotFound)
	_, err = s.Keys().Find(t.Context(), key.Digest)
	wantError(t, err, keys.ErrNotFound)
	wantError(t, deleteKey(t, s, key.ID), keys.ErrNotFound)
	all := listKeys(t, s)
	wantList(t, "List returns", all.Keys, []keys.Key{other})
}

func keyFind(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	previous := key.Digest
	key, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		key.Digest[len(key.Digest)-1]++
		return nil
	})
	must(t, err)
	_, err = s.Keys().Find(t.Context(), previous)
	wantError(t, err, keys.ErrNotFound)
	wantKey(t, s, key)
	wantKey(t, s, other)
}

func keyFindPrevious(t *testing.T, s Harness) {
	other := insertKey(t, s, "other")
	key := insertKey(t, s, "key")
	rotate := func(name string, previous keys.Digest) {
		t.Helper()
		var err error
		key, err = UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
			key.Digest, key.PreviousDigest = newKey(name).Digest, previous
			key.PreviousExpiresAt = time.Time{}
			if previous != (keys.Digest{}) {
				key.PreviousExpiresAt = testTime
			}
			return nil
		})
		must(t, err)
		wantKey(t, s, key)
		wantKey(t, s, other)
	}
	notFound := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := s.Keys().Find(t.Context(), newKey(name).Digest)
			wantError(t, err, keys.ErrNotFound)
		}
	}
	rotate("second", newKey("key").Digest)
	rotate("third", newKey("second").Digest)
	notFound("key")
	rotate("fourth", keys.Digest{})
	notFound("key", "second", "third")
	rotate("third", newKey("fourth").Digest)
	rotate("fourth", newKey("third").Digest) // both were known
	_, err := s.Keys().Insert(t.Context(), func() keys.Key {
		taken := newKey("another")
		taken.PreviousDigest, taken.PreviousExpiresAt = newKey("third").Digest, testTime
		return taken
	}())
	if err == nil {
		t.Error("Insert stores a PreviousDigest that another key has")
	}
	must(t, deleteKey(t, s, key.ID))
	notFound("key", "second", "third", "fourth")
	wantKey(t, s, other)
}

func keyFindID(t *testing.T, s Harness) {
	insertKey(t, s, "other")
	key := insertUsedKey(t, s)
	got, err := s.Keys().FindID(t.Context(), key.ID)
	must(t, err)
	wantEqual(t, "FindID returns", got, key)
	must(t, deleteKey(t, s, key.ID))
	for _, id := range []int64{key.ID, key.ID + 1, 0, -1, math.MaxInt64} {
		_, err = s.Keys().FindID(t.Context(), id)
		wantError(t, err, keys.ErrNotFound)
	}
}

func keyFilter(t *testing.T, s Harness) {
	var all []keys.Key
	for i := range 12 {
		key := newKey(strconv.Itoa(i))
		key.Owner = []string{"", "a", "A", "a "}[i%4]
		key = storeKey(t, s, key)
		all = append(all, key)
	}
	deleted := all[5].ID
	must(t, deleteKey(t, s, deleted))
	all = slices.Delete(all, 5, 6)
	for i, owner := range map[int]string{0: "a", 1: "", 2: "a", 3: "A"} {
		key, err := UpdateKey(t.Context(), s.Keys(), all[i].ID, func(key *keys.Key) error {
			key.Owner = owner
			return nil
		})
		must(t, err)
		all[i] = key
	}
	for _, owner := range []*string{nil, new("a"), new("A"), new("a "), new("b")} {
		for _, after := range slices.Concat([]int64{-1, 0, all[0].ID - 1, deleted, all[10].ID + 1}, idsOf(all)) {
			for limit := -1; limit < 14; limit++ {
				var want keys.Page
				for _, key := range all {
					switch {
					case owner != nil && key.Owner != *owner, key.ID <= after:
					case limit > 0 && len(want.Keys) == limit:
						want.More = true
					default:
						want.Keys = append(want.Keys, key)
					}
				}
				r := keys.Range{After: after, Limit: limit}
				got, err := s.Keys().List(t.Context(), keys.Filter{Owner: owner}, r)
				must(t, err)
				if !slices.Equal(got.Keys, want.Keys) || got.More != want.More {
					t.Fatalf("List of %+v returns %+v, want %+v", r, got, want)
				}
			}
		}
	}
	page, err := s.Keys().List(t.Context(), keys.Filter{}, keys.Range{After: math.MaxInt64, Limit: math.MaxInt})
	must(t, err)
	if len(page.Keys) > 0 || page.More {
		t.Errorf("List after the last id returns %+v", page)
	}
}

func idsOf(list []keys.Key) (ids []int64) {
	for _, key := range list {
		ids = append(ids, key.ID)
	}
	return ids
}

func keyIDsNotReused(t *testing.T, s Harness) {
	insertKey(t, s, "stays")
	last := insertKey(t, s, "newest").ID
	must(t, deleteKey(t, s, last))
	key := insertKey(t, s, "next")
	if key.ID <= last {
		t.Errorf("Insert assigns id %d, want more than the deleted %d", key.ID, last)
	}
	must(t, deleteKey(t, s, key.ID))
	second := s.reopen(t)
	if id := insertKey(t, second, "after a restart").ID; id <= key.ID {
		t.Errorf("Insert after reopening assigns id %d, want more than the deleted %d", id, key.ID)
	}
}

func keyValues(t *testing.T, s Harness) {
	var given *keys.Key
	key := insertKey(t, s, "key")
	key, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		given = key
		key.Name = "renamed"
		return nil
	})
	must(t, err)
	given.Name = "altered later"
	all := listKeys(t, s)
	all.Keys[0].Name = "altered in the list"
	wantKey(t, s, key)
}

func keyPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	key := insertKey(t, s, "key")
	wantKey(t, second, key)
	before := epoch(t, s)
	must(t, second.Keys().Touch(t.Context(), []keys.Use{useOf(key, testTime)}, testTime))
	key.LastUsedAt, key.UseCount = testTime, 1
	wantKey(t, s, key)
	if after := epoch(t, second); after != before {
		t.Errorf("the epoch is %d on one handle and %d on the other", before, after)
	}
	must(t, deleteKey(t, second, key.ID))
	_, err := s.Keys().Find(t.Context(), key.Digest)
	wantError(t, err, keys.ErrNotFound)
	if after := epoch(t, s); after <= before {
		t.Errorf("the epoch is %d, want more than %d", after, before)
	}
}

func keyShared(t *testing.T, s Harness) {
	wantEqual(t, "Shared returns", s.Keys().Shared(), s.Reopen != nil)
}

// UpdateKey is Update of one key.
func UpdateKey(ctx context.Context, store keys.Store, id int64, change func(*keys.Key) error) (keys.Key, error) {
	list, err := store.Update(ctx, []int64{id}, func(list []keys.Key) error {
		if len(list) == 0 {
			return keys.ErrNotFound
		}
		return change(&list[0])
	})
	if err == nil && len(list) == 0 {
		err = keys.ErrNotFound
	}
	if err != nil {
		return keys.Key{}, err
	}
	return list[0], nil
}

// DeleteKey is Delete of one key.
func DeleteKey(ctx context.Context, store keys.Store, id int64) (keys.Key, error) {
	list, err := store.Delete(ctx, []int64{id}, func(list []keys.Key) error {
		if len(list) == 0 {
			return keys.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return keys.Key{}, err
	}
	return list[0], nil
}
