package storagetest

import (
	"testing"
	"time"

	"example.com/canvasback/keys"
)

var epochChecks = []check{
	{"the epoch increases with changes that affect verification", epochIncreases},
	{"the epoch does not change otherwise", epochUnchanged},
}

func epoch(t testing.TB, s Storage) int64 {
	t.Helper()
	n, err := s.Keys().Epoch(t.Context())
	must(t, err)
	return n
}

// epochStep is a call that may change a key.
type epochStep struct {
	name string
	do   func(id int64) error
}

// updateStep returns a step that updates the key.
func updateStep(t *testing.T, s Storage, name string, change func(*keys.Key)) epochStep {
	return epochStep{name, func(id int64) error {
		_, err := s.Keys().Update(t.Context(), id, func(key *keys.Key) error {
			change(key)
			return nil
		})
		return err
	}}
}

func epochIncreases(t *testing.T, s Harness) {
	last := epoch(t, s)
	key := insertKey(t, s, "key")
	for _, step := range []epochStep{
		{"insert", func(int64) error { return nil }}, // the one above
		updateStep(t, s, "digest", func(key *keys.Key) { key.Digest[31]++ }),
		updateStep(t, s, "deactivate", func(key *keys.Key) { key.Active = false }),
		updateStep(t, s, "activate", func(key *keys.Key) { key.Active = true }),
		updateStep(t, s, "expire", func(key *keys.Key) { key.ExpiresAt = testTime }),
		updateStep(t, s, "expire a millisecond later", func(key *keys.Key) { key.ExpiresAt = testTime.Add(time.Millisecond) }),
		updateStep(t, s, "never expire", func(key *keys.Key) { key.ExpiresAt = time.Time{} }),
		{"delete", func(id int64) error { return s.Keys().Delete(t.Context(), id) }},
	} {
		must(t, step.do(key.ID))
		now := epoch(t, s)
		if now <= last {
			t.Errorf("%s: epoch is %d, want more than %d", step.name, now, last)
		}
		last = now
	}
}

func epochUnchanged(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	before := epoch(t, s)
	for _, step := range []epochStep{
		updateStep(t, s, "name", func(key *keys.Key) { key.Name = "renamed" }),
		updateStep(t, s, "prefix and mask", func(key *keys.Key) { key.Prefix, key.Mask = "prefix", "mask" }),
		updateStep(t, s, "update time", func(key *keys.Key) { key.UpdatedAt = testTime.Add(time.Hour) }),
		updateStep(t, s, "nothing", func(*keys.Key) {}),
		updateStep(t, s, "ignored field", func(key *keys.Key) { key.LastUsedAt = testTime }),
		{"touch", func(id int64) error { return s.Keys().Touch(t.Context(), []keys.Use{{ID: id, At: testTime}}) }},
		{"get", func(id int64) error { _, err := s.Keys().Get(t.Context(), id); return err }},
		{"find", func(int64) error { _, err := s.Keys().Find(t.Context(), key.Digest); return err }},
		{"list", func(int64) error { _, err := s.Keys().List(t.Context()); return err }},
		{"folder", func(int64) error { insertFolder(t, s, "folder"); return nil }},
	} {
		must(t, step.do(key.ID))
		if after := epoch(t, s); after != before {
			t.Errorf("%s: epoch changed from %d to %d", step.name, before, after)
		}
	}
}
