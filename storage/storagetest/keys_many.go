package storagetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

func keyImport(t *testing.T, s Harness) {
	existing := newKey("existing")
	existing.PreviousDigest, existing.PreviousExpiresAt = newKey("previous").Digest, testTime.Add(time.Millisecond)
	existing.PreviousPublicKey = keys.PublicKey{2}
	existing = storeKey(t, s, existing)
	var list []keys.Key
	for i := range 1000 {
		key := newKey(strconv.Itoa(i))
		key.PublicKey = keys.PublicKey{byte(i)}
		key.Owner, key.Scopes, key.ExpiresAt, key.Active = "tenant", keys.ParseScopes("a b"), testTime.Add(time.Hour), i%2 == 0
		list = append(list, key)
	}
	for _, taken := range []string{"existing", "previous"} {
		with := slices.Clone(list)
		with[7] = newKey(taken)
		_, err := s.Keys().Import(t.Context(), with[:10])
		if takenIndex(err) != 7 {
			t.Errorf("Import of a digest that exists returns %v", err)
		}
	}
	two := []keys.Key{list[0], newKey("previous"), newKey("existing")}
	if _, err := s.Keys().Import(t.Context(), two); takenIndex(err) != 1 {
		t.Errorf("Import of two digests that exist returns %v", err)
	}
	late := newKey("previous")
	late.CreatedAt = existing.PreviousExpiresAt // the overlap has ended
	before := epoch(t, s)
	taken := newKey("existing")
	taken.CreatedAt = late.CreatedAt
	if _, err := s.Keys().Import(t.Context(), []keys.Key{late, taken}); takenIndex(err) != 1 {
		t.Errorf("Import of another digest that exists returns %v", err)
	}
	existing.PreviousDigest, existing.PreviousExpiresAt, existing.PreviousPublicKey = keys.Digest{}, time.Time{}, keys.PublicKey{}
	wantKey(t, s, existing)
	before = wantChanges(t, s, before, existing.Digest, late.Digest)
	lateIDs, err := s.Keys().Import(t.Context(), []keys.Key{late})
	must(t, err)
	if got, err := s.Keys().Find(t.Context(), late.Digest); err != nil || got.ID != lateIDs[0] {
		t.Errorf("Find of a digest that was imported again returns %+v, %v", got, err)
	}
	wantKey(t, s, existing)
	before = wantChanges(t, s, before, late.Digest)
	ids, err := s.Keys().Import(t.Context(), list)
	must(t, err)
	if !slices.IsSorted(ids) || len(ids) != len(list) || ids[0] <= existing.ID {
		t.Fatalf("Import returns the ids %v", ids)
	}
	for _, i := range []int{0, 1, 500, 999} {
		want := list[i]
		want.ID = ids[i]
		got, err := s.Keys().Find(t.Context(), want.Digest)
		must(t, err)
		wantEqual(t, "Find returns", got, want)
	}
	if changes := changesSince(t, s, before); !changes.Complete || len(changes.Digests) != len(list) {
		t.Errorf("the log has %d digests, complete: %v", len(changes.Digests), changes.Complete)
	}
	page := listKeys(t, s)
	wantEqual(t, "the number of keys is", len(page.Keys), len(list)+2)
	page, err = s.Keys().List(t.Context(), keys.Filter{Owner: &list[0].Owner}, keys.Range{})
	must(t, err)
	wantEqual(t, "the number of keys of the owner is", len(page.Keys), len(list))
}

// takenIndex returns the index of a TakenError, or -1.
func takenIndex(err error) int {
	if taken, ok := errors.AsType[*keys.TakenError](err); ok {
		return taken.Index
	}
	return -1
}

// keyWhole checks what Update and Delete pass to the function and return.
func keyWhole(t *testing.T, s Harness) {
	key := insertUsedKey(t, s)
	for name, method := range map[string]func(context.Context, []int64, func([]keys.Key) error) ([]keys.Key, error){
		"Update": s.Keys().Update, "Delete": s.Keys().Delete,
	} {
		_, err := method(t.Context(), []int64{key.ID}, func(list []keys.Key) error {
			wantList(t, name+" calls the function with", list, []keys.Key{key})
			return errCallback
		})
		wantError(t, err, errCallback)
	}
	got, err := s.Keys().Delete(t.Context(), []int64{key.ID}, func([]keys.Key) error { return nil })
	must(t, err)
	wantList(t, "Delete returns", got, []keys.Key{key})
}

// keyThousand checks the numbers of keys that a Service passes.
func keyThousand(t *testing.T, s Harness) {
	var list []keys.Key
	var uses []keys.Use
	for i := range 1000 {
		list = append(list, newKey(strconv.Itoa(i)))
	}
	ids, err := s.Keys().Import(t.Context(), list)
	must(t, err)
	for _, id := range ids {
		uses = append(uses, keys.Use{ID: id, CreatedAt: testTime, At: testTime, Count: 1, Today: 1})
	}
	must(t, s.Keys().Touch(t.Context(), uses, testTime))
	rows, err := s.Keys().Usage(t.Context(), ids[:100], nil, 0)
	must(t, err)
	updated, err := s.Keys().Update(t.Context(), ids, func(list []keys.Key) error {
		for i := range list {
			list[i].Active = false
		}
		return nil
	})
	must(t, err)
	deleted, err := s.Keys().Delete(t.Context(), ids, func([]keys.Key) error { return nil })
	must(t, err)
	if len(rows) != 100 || len(updated) != 1000 || len(deleted) != 1000 || !slices.Equal(updated, deleted) {
		t.Errorf("Usage returns %d rows, Update %d keys, Delete %d", len(rows), len(updated), len(deleted))
	}
}

func keyMany(t *testing.T, s Harness) {
	var all []keys.Key
	var ids []int64
	for i := range 5 {
		all = append(all, insertKey(t, s, strconv.Itoa(i)))
		ids = append([]int64{all[i].ID}, ids...)
	}
	before := epoch(t, s)
	some := append([]int64{ids[0] + 1000}, ids[1:4]...) // one does not exist
	change := func(list []keys.Key) {
		wantList(t, "the function is called with", list, all[1:4])
		list[0].Name, list[2].Active = "renamed", false
		list[1].ID, list[1].UseCount = 7, 7 // ignored
	}
	_, err := s.Keys().Update(t.Context(), some, func(list []keys.Key) error {
		change(list)
		return errCallback
	})
	wantError(t, err, errCallback)
	for _, key := range all {
		wantKey(t, s, key)
	}
	wantEqual(t, "the epoch is", wantChanges(t, s, before), before)
	got, err := s.Keys().Update(t.Context(), some, func(list []keys.Key) error {
		change(list)
		return nil
	})
	must(t, err)
	all[1].Name, all[3].Active = "renamed", false
	wantList(t, "Update returns", got, all[1:4])
	wantChanges(t, s, before, all[3].Digest) // a name does not count
	for _, key := range all {
		wantKey(t, s, key)
	}

	got, err = s.Keys().Delete(t.Context(), some, func(list []keys.Key) error {
		wantList(t, "the function is called with", list, all[1:4])
		return errCallback
	})
	wantError(t, err, errCallback)
	if len(got) > 0 {
		t.Errorf("Delete returns %+v beside an error", got)
	}
	wantKey(t, s, all[1])
	got, err = s.Keys().Delete(t.Context(), some, func([]keys.Key) error { return nil })
	must(t, err)
	wantList(t, "Delete returns", got, all[1:4])
	page := listKeys(t, s)
	wantList(t, "List returns", page.Keys, []keys.Key{all[0], all[4]})
	for _, none := range [][]int64{nil, {ids[0] + 1000}} {
		got, err = s.Keys().Update(t.Context(), none, func([]keys.Key) error { return nil })
		must(t, err)
		if len(got) > 0 {
			t.Errorf("Update of no key returns %+v", got)
		}
	}
}
