package storagetest

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

func keyTouchPublicKey(t *testing.T, s Harness) {
	key := newKey("key")
	key.PreviousDigest, key.PreviousExpiresAt = newKey("previous").Digest, testTime.Add(time.Hour)
	key = storeKey(t, s, key)
	other := insertKey(t, s, "other")
	before := epoch(t, s)
	touch := func(digest keys.Digest, first byte) {
		t.Helper()
		uses := []keys.Use{
			{ID: key.ID, CreatedAt: key.CreatedAt, At: key.CreatedAt, Digest: digest, PublicKey: keys.PublicKey{first}},
			useOf(other, other.CreatedAt),
		}
		must(t, s.Keys().Touch(t.Context(), uses, testTime))
		key.LastUsedAt, other.LastUsedAt = key.CreatedAt, other.CreatedAt
		other.UseCount++
		wantKey(t, s, key)
		wantKey(t, s, other)
	}
	key.PublicKey = keys.PublicKey{1}
	touch(key.Digest, 1)
	key.PublicKey = keys.PublicKey{5}
	touch(key.Digest, 5)
	key.PreviousPublicKey = keys.PublicKey{2}
	touch(key.PreviousDigest, 2)
	touch(other.Digest, 3) // of another key
	touch(keys.Digest{}, 0)
	touch(key.Digest, 0)
	wantEqual(t, "the epoch is", wantChanges(t, s, before), before)

	key, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
		key.PreviousDigest, key.PreviousPublicKey = key.Digest, key.PublicKey
		key.Digest, key.PublicKey = newKey("next").Digest, keys.PublicKey{4}
		return nil
	})
	must(t, err)
	if key.PreviousPublicKey != (keys.PublicKey{5}) || key.PublicKey != (keys.PublicKey{4}) {
		t.Errorf("Update returns %+v", key)
	}
	wantKey(t, s, key)
}

func keyUsage(t *testing.T, s Harness) {
	const day = 24 * time.Hour
	today := testTime.UnixMilli() / day.Milliseconds()
	want := func(ids []int64, owner *string, since int64, want ...keys.UsageRow) {
		t.Helper()
		rows, err := s.Keys().Usage(t.Context(), ids, owner, since)
		must(t, err)
		sums := make(map[keys.UsageRow]int64)
		for _, row := range rows {
			sums[keys.UsageRow{KeyID: row.KeyID, Day: row.Day}] += row.Requests
		}
		var got []keys.UsageRow
		for row, requests := range sums {
			row.Requests = requests
			got = append(got, row)
		}
		slices.SortFunc(got, func(a, b keys.UsageRow) int { return cmp.Or(cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Day, b.Day)) })
		if !slices.Equal(got, want) {
			t.Errorf("Usage of %v since %d is %v, want %v", ids, since, got, want)
		}
	}
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	touch := func(key keys.Key, at time.Time, count, today int64) {
		t.Helper()
		use := keys.Use{ID: key.ID, CreatedAt: key.CreatedAt, At: at, Count: count, Today: today}
		must(t, s.Keys().Touch(t.Context(), []keys.Use{use}, at))
	}
	want(nil, nil, 0)
	touch(key, testTime, 5, 3) // two of them on the day before
	touch(key, testTime, 1, 1)
	touch(key, testTime, 0, 0)
	_, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error { key.Owner = "tenant"; return nil })
	must(t, err)
	touch(key, testTime, 10, 10)
	touch(other, testTime.Add(day), 7, 7)
	touch(keys.Key{ID: other.ID + 1, CreatedAt: testTime}, testTime, 1, 1) // does not exist
	id, otherID := key.ID, other.ID
	want([]int64{}, nil, 0)
	want(nil, nil, 0, keys.UsageRow{Day: today - 1, Requests: 2}, keys.UsageRow{Day: today, Requests: 14}, keys.UsageRow{Day: today + 1, Requests: 7})
	want(nil, new("tenant"), 0, keys.UsageRow{Day: today, Requests: 10})
	want(nil, new(""), today, keys.UsageRow{Day: today, Requests: 4}, keys.UsageRow{Day: today + 1, Requests: 7})
	want([]int64{id, otherID}, nil, today, keys.UsageRow{KeyID: id, Day: today, Requests: 14}, keys.UsageRow{KeyID: otherID, Day: today + 1, Requests: 7})
	want([]int64{id}, new("tenant"), today-1, keys.UsageRow{KeyID: id, Day: today, Requests: 10})
	want([]int64{id}, new(""), today, keys.UsageRow{KeyID: id, Day: today, Requests: 4})
	must(t, deleteKey(t, s, id))
	want([]int64{id}, nil, today, keys.UsageRow{KeyID: id, Day: today, Requests: 14}) // outlives the key

	for _, c := range []struct {
		before        int64
		most, removed int
	}{{math.MinInt64, 10, 0}, {today - 1, 10, 0}, {today + 1, 2, 2}, {today + 1, 2, 1}, {today + 1, 2, 0}} {
		removed, err := s.Keys().PruneUsage(t.Context(), c.before, c.most)
		must(t, err)
		if removed != c.removed {
			t.Errorf("PruneUsage removes %d rows, want %d", removed, c.removed)
		}
	}
	want(nil, nil, math.MinInt64, keys.UsageRow{Day: today + 1, Requests: 7})
}

func keyTouch(t *testing.T, s Harness) {
	const day = 24 * time.Hour
	now := testTime.Add(day)
	var list []keys.Key
	for _, name := range []string{"never used", "used before", "used since", "used then", "not in the batch"} {
		key := newKey(name)
		key.CreatedAt = testTime.Add(-day)
		key = storeKey(t, s, key)
		list = append(list, key)
	}
	must(t, s.Keys().Touch(t.Context(), []keys.Use{
		useOf(list[1], testTime.Add(-day)),
		useOf(list[2], testTime.Add(day)),
		useOf(list[3], testTime),
	}, now))
	before := epoch(t, s)
	must(t, s.Keys().Touch(t.Context(), []keys.Use{
		useOf(list[2], testTime),
		useOf(list[0], testTime),
		useOf(list[3], testTime),
		useOf(list[1], testTime),
	}, now))
	must(t, s.Keys().Touch(t.Context(), nil, now))
	for i, at := range []time.Time{testTime, testTime, testTime.Add(day), testTime, {}} {
		list[i].LastUsedAt, list[i].UseCount = at, []int64{1, 2, 2, 2, 0}[i]
		wantKey(t, s, list[i])
	}
	wantEqual(t, "the epoch is", wantChanges(t, s, before), before)
}

func keyTouchCounts(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	for _, count := range []int64{1, 0, 1 << 40, 2} {
		must(t, s.Keys().Touch(t.Context(), []keys.Use{
			{ID: key.ID, CreatedAt: key.CreatedAt, At: testTime, Count: count},
		}, testTime))
		key.LastUsedAt = testTime
		key.UseCount += count
		wantKey(t, s, key)
	}
	wantKey(t, s, other)
}

// keyTouchIdentity touches keys that had the same ids in a lost history.
func keyTouchIdentity(t *testing.T, s Harness) {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	now := testTime.Add(time.Hour)
	for _, difference := range []time.Duration{-time.Hour, -time.Millisecond, time.Millisecond} {
		must(t, s.Keys().Touch(t.Context(), []keys.Use{
			{ID: key.ID, CreatedAt: key.CreatedAt.Add(difference), At: now, Count: 1},
			{ID: other.ID, CreatedAt: other.CreatedAt, At: other.CreatedAt.Add(-time.Millisecond), Count: 1},
			{ID: other.ID + 1, CreatedAt: other.CreatedAt, At: now, Count: 1},
		}, now))
		wantKey(t, s, key)
		wantKey(t, s, other)
	}
	if rows, err := s.Keys().Usage(t.Context(), nil, nil, 0); err != nil || len(rows) > 0 {
		t.Errorf("Usage returns %+v, %v; want nothing", rows, err)
	}
	must(t, s.Keys().Touch(t.Context(), []keys.Use{
		{ID: key.ID, CreatedAt: key.CreatedAt.Add(-time.Hour), At: now, Count: 1},
		useOf(key, key.CreatedAt),
		{ID: key.ID, CreatedAt: key.CreatedAt.Add(time.Hour), At: now, Count: 1},
	}, now))
	key.LastUsedAt, key.UseCount = key.CreatedAt, 1
	wantKey(t, s, key)
}

func keyTouchFuture(t *testing.T, s Harness) {
	const year = 365 * 24 * time.Hour
	key := insertKey(t, s, "key")
	touch := func(at, now, want time.Time) {
		t.Helper()
		must(t, s.Keys().Touch(t.Context(), []keys.Use{useOf(key, at)}, now))
		key.LastUsedAt = want
		key.UseCount++
		wantKey(t, s, key)
	}
	future := testTime.Add(year)
	touch(future, future, future) // with a wrong clock
	touch(testTime, testTime, testTime)
	minute := testTime.Add(time.Minute)
	touch(minute, testTime, minute)
	touch(testTime, testTime, minute) // within the tolerance
	late := minute.Add(time.Millisecond)
	touch(late, testTime, late)
	touch(testTime, testTime, testTime) // beyond it
	touch(future, testTime, future)
	touch(future.Add(-time.Hour), testTime, future.Add(-time.Hour)) // both are beyond it
}
