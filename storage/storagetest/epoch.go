package storagetest

import (
	"testing"
	"time"

	"example.com/canvasback/keys"
)

var epochPromises = []promise{
	{"the epoch rises with what matters to a check", epochRises},
	{"the epoch stays with everything else", epochStays},
}

func epoch(t testing.TB, s Storage) int64 {
	t.Helper()
	n, err := s.Keys().Epoch(t.Context())
	must(t, err)
	return n
}

// epochStep does something to a key.
type epochStep struct {
	name string
	do   func(id int64) error
}

// updateStep is a step that updates the key.
func updateStep(t *testing.T, s Storage, name string, change func(*keys.Key)) epochStep {
	return epochStep{name, func(id int64) error {
		_, err := s.Keys().Update(t.Context(), id, func(key *keys.Key) error {
			change(key)
			return nil
		})
		return err
	}}
}

func epochRises(t *testing.T, s Harness) {
	last := epoch(t, s)
	key := insertKey(t, s, "key")
	for _, step := range []epochStep{
		{"insert", func(int64) error { return nil }}, // the one above
		updateStep(t, s, "digest", func(key *keys.Key) { key.Digest[31]++ }),
		updateStep(t, s, "deactivate", func(key *keys.Key) { key.Active = false }),
		updateStep(t, s, "activate", func(key *keys.Key) { key.Active = true }),
		updateStep(t, s, "expire", func(key *keys.Key) { key.ExpiresAt = noon }),
		updateStep(t, s, "expire a millisecond later", func(key *keys.Key) { key.ExpiresAt = noon.Add(time.Millisecond) }),
		updateStep(t, s, "never expire", func(key *keys.Key) { key.ExpiresAt = time.Time{} }),
		{"delete", func(id int64) error { return s.Keys().Delete(t.Context(), id) }},
	} {
		must(t, step.do(key.ID))
		now := epoch(t, s)
		if now <= last {
			t.Errorf("%s: the epoch went from %d to %d", step.name, last, now)
		}
		last = now
	}
}

func epochStays(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	before := epoch(t, s)
	for _, step := range []epochStep{
		updateStep(t, s, "name", func(key *keys.Key) { key.Name = "renamed" }),
		updateStep(t, s, "display", func(key *keys.Key) { key.Prefix, key.Mask = "prefix", "mask" }),
		updateStep(t, s, "update time", func(key *keys.Key) { key.UpdatedAt = noon.Add(time.Hour) }),
		updateStep(t, s, "nothing", func(*keys.Key) {}),
		updateStep(t, s, "what is not stored", func(key *keys.Key) { key.LastUsedAt = noon }),
		{"touch", func(id int64) error { return s.Keys().Touch(t.Context(), []keys.Use{{ID: id, At: noon}}) }},
		{"get", func(id int64) error { _, err := s.Keys().Get(t.Context(), id); return err }},
		{"find", func(int64) error { _, err := s.Keys().Find(t.Context(), key.Digest); return err }},
		{"list", func(int64) error { _, err := s.Keys().List(t.Context()); return err }},
		{"folder", func(int64) error { insertFolder(t, s, "folder"); return nil }},
	} {
		must(t, step.do(key.ID))
		if after := epoch(t, s); after != before {
			t.Errorf("%s: the epoch went from %d to %d", step.name, before, after)
		}
	}
}
