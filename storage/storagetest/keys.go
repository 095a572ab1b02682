package storagetest

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

var keyPromises = []promise{
	{"insert gives new ids, ascending", keyIDs},
	{"a key comes back as it was stored", keyRoundTrip},
	{"text comes back as it was stored", keyTexts},
	{"times come back to the millisecond, in UTC", keyTimes},
	{"a missing key is not found", keyMissing},
	{"update stores what the function leaves", keyUpdate},
	{"a failing function changes nothing", keyUpdateFails},
	{"update stores neither identity nor creation nor last use", keyUpdateKept},
	{"delete removes one key", keyDelete},
	{"find goes by the present digest", keyFind},
	{"touch moves last use forward and nothing else", keyTouch},
	{"ids are never used again", keyIDsOnce},
	{"keys are values", keyValues},
	{"keys outlive the process", keyLasting},
	{"a store that can be opened twice reports that it is shared", keyShared},
}

// newKey returns a key that has a name and a digest of its own.
func newKey(name string) keys.Key {
	return keys.Key{
		Name:      name,
		Prefix:    "cbk_abcdef",
		Mask:      "cbk_abcdef****uvwx",
		Digest:    sha256.Sum256([]byte(name)),
		Active:    true,
		CreatedAt: noon,
		UpdatedAt: noon,
	}
}

func insertKey(t testing.TB, s Storage, name string) keys.Key {
	t.Helper()
	key, err := s.Keys().Insert(t.Context(), newKey(name))
	must(t, err)
	return key
}

// wantKey compares a key with what Get, Find and List return.
func wantKey(t testing.TB, s Storage, want keys.Key) {
	t.Helper()
	got, err := s.Keys().Get(t.Context(), want.ID)
	must(t, err)
	if got != want {
		t.Errorf("Get returns %+v, want %+v", got, want)
	}
	got, err = s.Keys().Find(t.Context(), want.Digest)
	must(t, err)
	if got != want {
		t.Errorf("Find returns %+v, want %+v", got, want)
	}
	list, err := s.Keys().List(t.Context())
	must(t, err)
	if !slices.Contains(list, want) {
		t.Errorf("List returns %+v, which lacks %+v", list, want)
	}
}

func keyIDs(t *testing.T, s Harness) {
	last := int64(0)
	var want []keys.Key
	for _, name := range []string{"first", "second", "third"} {
		key := newKey(name)
		key.ID = 1 // to be ignored
		stored, err := s.Keys().Insert(t.Context(), key)
		must(t, err)
		if stored.ID <= last {
			t.Errorf("Insert gives id %d after %d", stored.ID, last)
		}
		last = stored.ID
		want = append(want, stored)
	}
	list, err := s.Keys().List(t.Context())
	must(t, err)
	if !slices.Equal(list, want) {
		t.Errorf("List returns %+v, want %+v", list, want)
	}
}

func keyRoundTrip(t *testing.T, s Harness) {
	list, err := s.Keys().List(t.Context())
	must(t, err)
	if len(list) != 0 {
		t.Errorf("List of a new storage returns %+v", list)
	}
	for _, active := range []bool{true, false} {
		key := newKey(strconv.FormatBool(active))
		key.Name = "both have this name"
		key.Active = active
		key.ExpiresAt = noon.Add(time.Hour)
		key.LastUsedAt = noon.Add(time.Minute)
		key.UpdatedAt = noon.Add(time.Second)
		stored, err := s.Keys().Insert(t.Context(), key)
		must(t, err)
		key.ID = stored.ID
		if stored != key {
			t.Errorf("Insert returns %+v, want %+v", stored, key)
		}
		wantKey(t, s, key)
	}
}

func keyTexts(t *testing.T, s Harness) {
	for _, text := range oddTexts {
		key := newKey(text)
		key.Prefix, key.Mask = text, text
		stored, err := s.Keys().Insert(t.Context(), key)
		must(t, err)
		key.ID = stored.ID
		got, err := s.Keys().Get(t.Context(), key.ID)
		must(t, err)
		if got != key {
			t.Errorf("Get returns %+v, want %+v", got, key)
		}
	}
}

func keyTimes(t *testing.T, s Harness) {
	wantUTC := func(key keys.Key) {
		for _, at := range []time.Time{key.CreatedAt, key.UpdatedAt, key.ExpiresAt, key.LastUsedAt} {
			if at.Location() != time.UTC {
				t.Errorf("a time comes back in %v", at.Location())
			}
		}
	}
	key := insertKey(t, s, "key")
	if !key.ExpiresAt.IsZero() || !key.LastUsedAt.IsZero() {
		t.Errorf("Insert returns %+v, want no expiry and no last use", key)
	}
	wantUTC(key)
	wantKey(t, s, key)
	for _, at := range times {
		want := newKey(at.String())
		want.CreatedAt, want.UpdatedAt, want.ExpiresAt, want.LastUsedAt = at, at, at, at
		stored, err := s.Keys().Insert(t.Context(), want)
		must(t, err)
		want.ID = stored.ID
		wantKey(t, s, want)
		wantUTC(stored)

		key, err = s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
			key.ExpiresAt, key.UpdatedAt = at, at
			return nil
		})
		must(t, err)
		must(t, s.Keys().Touch(t.Context(), []keys.Use{{ID: key.ID, At: at}}))
		key.LastUsedAt = at
		wantKey(t, s, key)
	}
	key, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
		key.ExpiresAt = time.Time{}
		return nil
	})
	must(t, err)
	if !key.ExpiresAt.IsZero() {
		t.Errorf("Update returns expiry %v, want none", key.ExpiresAt)
	}
	wantKey(t, s, key)
}

func keyMissing(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	for _, id := range []int64{key.ID + 1, 0, -1, 1<<63 - 1} {
		_, err := s.Keys().Get(t.Context(), id)
		wantError(t, err, keys.ErrNotFound)
		_, err = s.Keys().Update(t.Context(), id, func(*keys.Key) error { return nil })
		wantError(t, err, keys.ErrNotFound)
		wantError(t, s.Keys().Delete(t.Context(), id), keys.ErrNotFound)
		must(t, s.Keys().Touch(t.Context(), []keys.Use{{ID: id, At: noon}}))
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
	want.Active = false
	want.ExpiresAt, want.UpdatedAt = noon.Add(time.Hour), noon.Add(time.Second)
	for range 2 { // the second time nothing is new
		got, err := s.Keys().Update(t.Context(), key.ID, func(present *keys.Key) error {
			if *present != key {
				t.Errorf("the function sees %+v, want %+v", *present, key)
			}
			*present = want
			return nil
		})
		must(t, err)
		if got != want {
			t.Errorf("Update returns %+v, want %+v", got, want)
		}
		wantKey(t, s, want)
		key = want
	}
	wantKey(t, s, other)
}

func keyUpdateFails(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	before := epoch(t, s)
	_, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
		*key = keys.Key{Name: "altered"}
		return errRefused
	})
	wantError(t, err, errRefused)
	wantKey(t, s, key)
	if after := epoch(t, s); after != before {
		t.Errorf("the epoch went from %d to %d", before, after)
	}
}

func keyUpdateKept(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	must(t, s.Keys().Touch(t.Context(), []keys.Use{{ID: key.ID, At: noon}}))
	got, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
		key.ID += 7
		key.Name = "renamed"
		key.CreatedAt = noon.Add(time.Hour)
		key.LastUsedAt = time.Time{}
		return nil
	})
	must(t, err)
	key.Name, key.LastUsedAt = "renamed", noon
	if got != key {
		t.Errorf("Update returns %+v, want %+v", got, key)
	}
	wantKey(t, s, key)
}

func keyDelete(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	must(t, s.Keys().Delete(t.Context(), key.ID))
	_, err := s.Keys().Get(t.Context(), key.ID)
	wantError(t, err, keys.ErrNotFound)
	_, err = s.Keys().Find(t.Context(), key.Digest)
	wantError(t, err, keys.ErrNotFound)
	wantError(t, s.Keys().Delete(t.Context(), key.ID), keys.ErrNotFound)
	list, err := s.Keys().List(t.Context())
	must(t, err)
	if !slices.Equal(list, []keys.Key{other}) {
		t.Errorf("List returns %+v, want only %+v", list, other)
	}
}

func keyFind(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	former := key.Digest
	key, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
		key.Digest[len(key.Digest)-1]++
		return nil
	})
	must(t, err)
	_, err = s.Keys().Find(t.Context(), former)
	wantError(t, err, keys.ErrNotFound)
	wantKey(t, s, key)
	wantKey(t, s, other)
}

func keyTouch(t *testing.T, s Harness) {
	const day = 24 * time.Hour
	var list []keys.Key
	for _, name := range []string{"never used", "used before", "used since", "used then", "not in the batch"} {
		list = append(list, insertKey(t, s, name))
	}
	must(t, s.Keys().Touch(t.Context(), []keys.Use{
		{ID: list[1].ID, At: noon.Add(-day)},
		{ID: list[2].ID, At: noon.Add(day)},
		{ID: list[3].ID, At: noon},
	}))
	before := epoch(t, s)
	must(t, s.Keys().Touch(t.Context(), []keys.Use{
		{ID: list[2].ID, At: noon},
		{ID: list[0].ID, At: noon},
		{ID: list[4].ID + 1, At: noon}, // belongs to no key
		{ID: list[3].ID, At: noon},
		{ID: list[1].ID, At: noon},
	}))
	must(t, s.Keys().Touch(t.Context(), nil))
	list[0].LastUsedAt = noon
	list[1].LastUsedAt = noon
	list[2].LastUsedAt = noon.Add(day)
	list[3].LastUsedAt = noon
	for _, key := range list {
		wantKey(t, s, key)
	}
	if after := epoch(t, s); after != before {
		t.Errorf("the epoch went from %d to %d", before, after)
	}
}

func keyIDsOnce(t *testing.T, s Harness) {
	insertKey(t, s, "stays")
	last := insertKey(t, s, "newest").ID
	must(t, s.Keys().Delete(t.Context(), last))
	key := insertKey(t, s, "next")
	if key.ID <= last {
		t.Errorf("Insert gives id %d, which is not above the deleted %d", key.ID, last)
	}
	must(t, s.Keys().Delete(t.Context(), key.ID))
	again := s.reopen(t)
	if id := insertKey(t, again, "after a restart").ID; id <= key.ID {
		t.Errorf("Insert gives id %d after a restart, which is not above the deleted %d", id, key.ID)
	}
}

func keyValues(t *testing.T, s Harness) {
	var given *keys.Key
	key := insertKey(t, s, "key")
	key, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
		given = key
		key.Name = "renamed"
		return nil
	})
	must(t, err)
	given.Name = "altered later"
	list, err := s.Keys().List(t.Context())
	must(t, err)
	list[0].Name = "altered in the list"
	wantKey(t, s, key)
}

func keyLasting(t *testing.T, s Harness) {
	again := s.reopen(t)
	key := insertKey(t, s, "key")
	wantKey(t, again, key)
	before := epoch(t, s)
	must(t, again.Keys().Touch(t.Context(), []keys.Use{{ID: key.ID, At: noon}}))
	key.LastUsedAt = noon
	wantKey(t, s, key)
	if after := epoch(t, again); after != before {
		t.Errorf("one handle tells epoch %d, the other %d", before, after)
	}
	must(t, again.Keys().Delete(t.Context(), key.ID))
	_, err := s.Keys().Find(t.Context(), key.Digest)
	wantError(t, err, keys.ErrNotFound)
	if after := epoch(t, s); after <= before {
		t.Errorf("the epoch went from %d to %d", before, after)
	}
}

func keyShared(t *testing.T, s Harness) {
	if again := s.reopen(t); !s.Keys().Shared() || !again.Keys().Shared() {
		t.Error("Shared returns false")
	}
}
