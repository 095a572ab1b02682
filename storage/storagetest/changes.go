package storagetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

var changeChecks = []check{
	{"a change that affects Find raises the epoch and is logged", changesLogged},
	{"other changes neither raise the epoch nor are logged", changesNotLogged},
	{"digests are in the order of the changes", changesOrder},
	{"the log does not reach back to an unknown epoch", changesUnknownEpoch},
	{"a failed change is not logged", changesFailedUpdate},
	{"the log persists", changesPersist},
}

func epoch(t testing.TB, s Storage) int64 {
	t.Helper()
	return changesSince(t, s, 0).Epoch
}

func changesSince(t testing.TB, s Storage, since int64) keys.Changes {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes, err := s.Keys().Changes(ctx, since)
	must(t, err)
	if changes.Age < 0 || changes.Age >= time.Minute {
		t.Errorf("the response has the age %v", changes.Age)
	}
	if !changes.Complete && len(changes.Digests) > 0 {
		t.Errorf("an incomplete response has %d digests", len(changes.Digests))
	}
	return changes
}

// wantChanges checks the changes since an epoch, and returns the current one.
func wantChanges(t testing.TB, s Storage, since int64, want ...keys.Digest) (current int64) {
	t.Helper()
	got := changesSince(t, s, since)
	if !got.Complete || !slices.Equal(got.Digests, want) {
		t.Errorf("Changes(%d) returns %x, complete: %v, want %x", since, printable(got.Digests), got.Complete, printable(want))
	}
	clear(got.Digests) // which the next call returns again
	return got.Epoch
}

// printable returns digests that are not printed as placeholders.
func printable(digests []keys.Digest) [][]byte {
	list := make([][]byte, len(digests))
	for i, digest := range digests {
		list[i] = digest[:]
	}
	return list
}

// changeStep is a call that may change a key.
type changeStep struct {
	name string
	do   func(id int64) error
}

// updateStep returns a step that updates the key.
func updateStep(t *testing.T, s Storage, name string, change func(*keys.Key)) changeStep {
	return changeStep{name, func(id int64) error {
		_, err := UpdateKey(t.Context(), s.Keys(), id, func(key *keys.Key) error {
			change(key)
			return nil
		})
		return err
	}}
}

func changesLogged(t *testing.T, s Harness) {
	first := epoch(t, s)
	previous, rotated, again := newKey("key").Digest, newKey("rotated").Digest, newKey("again").Digest
	key := insertKey(t, s, "key")
	insertKey(t, s, "other")
	last := wantChanges(t, s, first, previous, newKey("other").Digest)
	all := []keys.Digest{previous, newKey("other").Digest}
	for _, step := range []struct {
		changeStep
		want []keys.Digest
	}{
		{updateStep(t, s, "deactivate", func(key *keys.Key) { key.Active = false }), []keys.Digest{previous}},
		{updateStep(t, s, "activate", func(key *keys.Key) { key.Active = true }), []keys.Digest{previous}},
		{updateStep(t, s, "expire", func(key *keys.Key) { key.ExpiresAt = testTime }), []keys.Digest{previous}},
		{updateStep(t, s, "expire later", func(key *keys.Key) { key.ExpiresAt = testTime.Add(time.Millisecond) }), []keys.Digest{previous}},
		{updateStep(t, s, "never expire", func(key *keys.Key) { key.ExpiresAt = time.Time{} }), []keys.Digest{previous}},
		{updateStep(t, s, "rotate", func(key *keys.Key) { key.Digest = rotated }), []keys.Digest{previous, rotated}},
		{updateStep(t, s, "rotate and deactivate", func(key *keys.Key) {
			key.Digest, key.Active = previous, false
		}), []keys.Digest{rotated, previous}},
		{updateStep(t, s, "set the owner", func(key *keys.Key) { key.Owner = "tenant" }), []keys.Digest{previous}},
		{updateStep(t, s, "limit the scopes", func(key *keys.Key) { key.Scopes = keys.ParseScopes("") }), []keys.Digest{previous}},
		{updateStep(t, s, "extend the scopes", func(key *keys.Key) { key.Scopes = keys.ParseScopes("symbols:read") }), []keys.Digest{previous}},
		{updateStep(t, s, "permit everything", func(key *keys.Key) { key.Scopes = keys.Scopes{} }), []keys.Digest{previous}},
		{updateStep(t, s, "rotate with an overlap", func(key *keys.Key) {
			key.Digest, key.PreviousDigest, key.PreviousExpiresAt = rotated, previous, testTime
		}), []keys.Digest{previous, rotated}},
		{updateStep(t, s, "change the overlap", func(key *keys.Key) { key.PreviousExpiresAt = testTime.Add(time.Hour) }), []keys.Digest{rotated, previous}},
		{updateStep(t, s, "activate both", func(key *keys.Key) { key.Active = true }), []keys.Digest{rotated, previous}},
		{updateStep(t, s, "rotate again", func(key *keys.Key) {
			key.Digest, key.PreviousDigest = again, rotated
		}), []keys.Digest{rotated, again, previous}},
		{updateStep(t, s, "end the overlap", func(key *keys.Key) {
			key.PreviousDigest, key.PreviousExpiresAt = keys.Digest{}, time.Time{}
		}), []keys.Digest{again, rotated}},
		{updateStep(t, s, "rotate at once", func(key *keys.Key) { key.Digest = rotated }), []keys.Digest{again, rotated}},
		{updateStep(t, s, "set the previous digest", func(key *keys.Key) {
			key.PreviousDigest, key.PreviousExpiresAt = previous, testTime
		}), []keys.Digest{rotated, previous}},
		{updateStep(t, s, "change the previous digest", func(key *keys.Key) { key.PreviousDigest = again }), []keys.Digest{rotated, previous, again}},
		{changeStep{"delete", func(id int64) error { return deleteKey(t, s, id) }}, []keys.Digest{rotated, again}},
	} {
		must(t, step.do(key.ID))
		t.Log(step.name)
		now := wantChanges(t, s, last, step.want...)
		if now <= last {
			t.Errorf("the epoch is %d, want more than %d", now, last)
		}
		all = append(all, step.want...)
		last = now
		wantChanges(t, s, first, all...)
		wantChanges(t, s, last)
	}
}

func changesNotLogged(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	before := epoch(t, s)
	for _, step := range []changeStep{
		updateStep(t, s, "name", func(key *keys.Key) { key.Name = "renamed" }),
		updateStep(t, s, "prefix and mask", func(key *keys.Key) { key.Prefix, key.Mask = "prefix", "mask" }),
		updateStep(t, s, "update time", func(key *keys.Key) { key.UpdatedAt = testTime.Add(time.Hour) }),
		updateStep(t, s, "nothing", func(*keys.Key) {}),
		updateStep(t, s, "ignored fields", func(key *keys.Key) { key.LastUsedAt, key.UseCount = testTime, 7 }),
		{"touch", func(int64) error { return s.Keys().Touch(t.Context(), []keys.Use{useOf(key, testTime)}, testTime) }},
		{"get", func(id int64) error { _, err := s.Keys().Get(t.Context(), id); return err }},
		{"find", func(int64) error { _, err := s.Keys().Find(t.Context(), key.Digest); return err }},
		{"list", func(int64) error { _, err := s.Keys().List(t.Context(), keys.Filter{}, keys.Range{}); return err }},
		{"folder", func(int64) error { insertFolder(t, s, "folder"); return nil }},
	} {
		must(t, step.do(key.ID))
		if after := wantChanges(t, s, before); after != before {
			t.Errorf("%s: epoch changed from %d to %d", step.name, before, after)
		}
	}
}

func changesOrder(t *testing.T, s Harness) {
	names := []string{"c", "a", "b", "d"}
	epochs := []int64{epoch(t, s)}
	var want []keys.Digest
	for _, name := range names {
		key := insertKey(t, s, name)
		epochs = append(epochs, epoch(t, s))
		want = append(want, key.Digest)
	}
	for i, since := range slices.Concat(epochs, epochs) {
		i %= len(epochs)
		if current := wantChanges(t, s, since, want[i:]...); current != epochs[len(names)] {
			t.Errorf("Changes(%d) returns epoch %d, want %d", since, current, epochs[len(names)])
		}
	}
}

func changesUnknownEpoch(t *testing.T, s Harness) {
	insertKey(t, s, "key")
	before := epoch(t, s)
	insertKey(t, s, "other")
	after := epoch(t, s)
	for _, since := range []int64{
		0, 1, -1, -1 << 63, 1<<63 - 1, 1<<63 - 2,
		before - 1, before + 1, after - 1, after + 1, after + 1000,
	} {
		got := changesSince(t, s, since)
		if got.Complete || got.Epoch != after {
			t.Errorf("Changes(%d) returns %+v, want epoch %d, incomplete", since, got, after)
		}
	}
}

// changesTwoStorages checks that an epoch of one storage is unknown to another.
func changesTwoStorages(t *testing.T, s, other Harness) {
	known := []int64{epoch(t, s)}
	for _, name := range []string{"a", "b", "c"} {
		insertKey(t, s, name)
		insertKey(t, other, name)
		known = append(known, epoch(t, s))
	}
	for _, since := range known {
		wantKnown(t, s, since, true)
		wantKnown(t, other, since, false)
	}
}

// wantKnown checks whether the log reaches back to an epoch.
func wantKnown(t testing.TB, s Storage, since int64, want bool) {
	t.Helper()
	if got := changesSince(t, s, since); got.Complete != want {
		t.Errorf("Changes(%d) at epoch %d, complete: %v, want %v", since, got.Epoch, got.Complete, want)
	}
}

func changesFailedUpdate(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	other := insertKey(t, s, "other")
	before := epoch(t, s)
	for _, do := range []func() error{
		func() error {
			_, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
				key.Active = false
				return errCallback
			})
			return err
		},
		func() error {
			_, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
				key.Digest = other.Digest
				return nil
			})
			return err
		},
		func() error { _, err := s.Keys().Insert(t.Context(), key); return err },
		func() error { return deleteKey(t, s, other.ID+1) },
	} {
		if do() == nil {
			t.Error("a change succeeds, want an error")
		}
		wantEqual(t, "the epoch is", wantChanges(t, s, before), before)
	}
}

func changesPersist(t *testing.T, s Harness) {
	second := s.reopen(t)
	first := epoch(t, s)
	key := insertKey(t, s, "key")
	wantChanges(t, second, first, key.Digest)
	must(t, deleteKey(t, second, key.ID))
	last := wantChanges(t, s, first, key.Digest, key.Digest)
	wantChanges(t, s.reopen(t), last)
}
