package memory

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/keyrecord"
)

type keyStore struct{ db *DB }

// errDigestTaken means a collision of SHA-256 digests.
var errDigestTaken = errors.New("memory: another key has the digest")

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	return write(ctx, s.db, func() (keys.Key, error) {
		if s.taken(0, digestsOf(key)) {
			return keys.Key{}, errDigestTaken
		}
		return s.insert(key), nil
	})
}

func (s keyStore) Import(ctx context.Context, list []keys.Key) ([]int64, error) {
	return write(ctx, s.db, func() ([]int64, error) {
		for _, key := range list { // a raw key whose overlap has ended does not exist any more
			other := s.db.keys[s.db.digests[key.Digest]]
			if other.PreviousDigest == key.Digest && !key.CreatedAt.Before(other.PreviousExpiresAt) {
				other.PreviousDigest, other.PreviousPublicKey = keys.Digest{}, keys.PublicKey{}
				other.PreviousExpiresAt = time.Time{}
				s.replace(other)
			}
		}
		for i, key := range list {
			if s.taken(0, digestsOf(key)) {
				return nil, &keys.TakenError{Index: i}
			}
		}
		ids := make([]int64, len(list))
		for i, key := range list {
			ids[i] = s.insert(key).ID
		}
		return ids, nil
	})
}

func (s keyStore) insert(key keys.Key) keys.Key {
	s.db.lastKeyID++
	key.ID, key.UseCount = s.db.lastKeyID, 0
	s.db.keyIDs = append(s.db.keyIDs, key.ID)
	s.replace(key)
	return key
}

// moveKey moves an id from the list of one owner to that of another.
func (db *DB) moveKey(id int64, from, to string) {
	if from == to {
		return
	}
	if from != "" {
		if db.ownerIDs[from] = without(db.ownerIDs[from], id); len(db.ownerIDs[from]) == 0 {
			delete(db.ownerIDs, from)
		}
	}
	if to != "" {
		db.ownerIDs[to] = with(db.ownerIDs[to], id)
	}
}

// digestsOf returns the digests by which the keys are found, each once: first the
// current ones.
func digestsOf(list ...keys.Key) []keys.Digest {
	var digests []keys.Digest
	add := func(digest keys.Digest) {
		if digest != (keys.Digest{}) && !slices.Contains(digests, digest) {
			digests = append(digests, digest)
		}
	}
	for _, key := range list {
		add(key.Digest)
	}
	for _, key := range list {
		add(key.PreviousDigest)
	}
	return digests
}

// taken reports whether a key other than that with the id has one of the digests.
func (s keyStore) taken(id int64, digests []keys.Digest) bool {
	return slices.ContainsFunc(digests, func(digest keys.Digest) bool {
		owner, ok := s.db.digests[digest]
		return ok && owner != id
	})
}

func (s keyStore) Get(ctx context.Context, id int64) (keys.Key, error) {
	return read(ctx, s.db, func() (keys.Key, error) { return find(s.db.keys, id, keys.ErrNotFound) })
}

func (s keyStore) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	return read(ctx, s.db, func() (keys.Page, error) {
		ids := s.db.keyIDs
		if filter.Owner != nil {
			ids = s.db.ownerIDs[*filter.Owner]
		}
		ids, more := inRange(ids, r.After, r.Limit)
		page := keys.Page{Keys: make([]keys.Key, len(ids)), More: more}
		for i, id := range ids {
			page.Keys[i] = s.db.keys[id]
		}
		return page, nil
	})
}

// existing returns the keys that have the ids, ids ascending.
func (s keyStore) existing(ids []int64) (list []keys.Key) {
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if key, ok := s.db.keys[id]; ok {
			list = append(list, key)
		}
	}
	return list
}

func (s keyStore) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return write(ctx, s.db, func() ([]keys.Key, error) {
		list := s.existing(ids)
		modified, err := keyrecord.Change(list, change)
		if err != nil {
			return nil, err
		}
		for _, key := range modified {
			if s.taken(key.ID, digestsOf(key)) {
				return nil, errDigestTaken
			}
		}
		for _, key := range modified {
			s.replace(key)
		}
		return list, nil
	})
}

// replace stores a key in place of the one with its id, if there is one.
func (s keyStore) replace(key keys.Key) {
	previous := s.db.keys[key.ID]
	for _, digest := range digestsOf(previous) {
		delete(s.db.digests, digest)
	}
	for _, digest := range digestsOf(key) {
		s.db.digests[digest] = key.ID
	}
	if key.Digest != previous.Digest || key.PreviousDigest != previous.PreviousDigest ||
		!key.PreviousExpiresAt.Equal(previous.PreviousExpiresAt) ||
		key.Active != previous.Active || !key.ExpiresAt.Equal(previous.ExpiresAt) ||
		key.Owner != previous.Owner || key.Scopes != previous.Scopes {
		s.db.changes.add(digestsOf(previous, key)...)
	}
	s.db.keys[key.ID] = key
	s.db.moveKey(key.ID, previous.Owner, key.Owner)
}

func (s keyStore) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) ([]keys.Key, error) {
	return write(ctx, s.db, func() ([]keys.Key, error) {
		list := s.existing(ids)
		if err := check(slices.Clone(list)); err != nil {
			return nil, err
		}
		for _, key := range list {
			delete(s.db.keys, key.ID)
			s.db.keyIDs = without(s.db.keyIDs, key.ID)
			s.db.moveKey(key.ID, key.Owner, "")
			for _, digest := range digestsOf(key) {
				delete(s.db.digests, digest)
			}
			s.db.changes.add(digestsOf(key)...)
		}
		return list, nil
	})
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return read(ctx, s.db, func() (keys.Key, error) {
		id, err := find(s.db.digests, digest, keys.ErrNotFound)
		return s.db.keys[id], err
	})
}

func (s keyStore) FindID(ctx context.Context, id int64) (keys.Key, error) { return s.Get(ctx, id) }

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	return s.db.change(ctx, func() error {
		for _, use := range uses {
			key, ok := s.db.keys[use.ID]
			if !ok || !key.CreatedAt.Equal(use.CreatedAt) || use.At.Before(key.CreatedAt) {
				continue
			}
			if use.At.After(key.LastUsedAt) || key.LastUsedAt.After(now.Add(keys.MaxClockSkew)) {
				key.LastUsedAt = use.At
			}
			key.UseCount += use.Count
			today := use.At.UnixMilli() / millisPerDay
			s.db.addUsage(usageKey{key.ID, today, key.Owner}, use.Today)
			s.db.addUsage(usageKey{key.ID, today - 1, key.Owner}, use.Count-use.Today)
			if use.PublicKey != (keys.PublicKey{}) {
				switch use.Digest {
				case key.Digest:
					key.PublicKey = use.PublicKey
				case key.PreviousDigest:
					key.PreviousPublicKey = use.PublicKey
				}
			}
			s.db.keys[use.ID] = key
		}
		return nil
	})
}

type usageKey struct {
	id, day int64
	owner   string
}

const millisPerDay = 24 * 60 * 60 * 1000

func (db *DB) addUsage(key usageKey, requests int64) {
	if requests != 0 {
		db.usage[key] += requests
	}
}

func (s keyStore) Usage(ctx context.Context, ids []int64, owner *string, since int64) ([]keys.UsageRow, error) {
	return read(ctx, s.db, func() ([]keys.UsageRow, error) {
		var rows []keys.UsageRow
		for key, requests := range s.db.usage {
			if key.day < since || owner != nil && key.owner != *owner || ids != nil && !slices.Contains(ids, key.id) {
				continue
			}
			if ids == nil {
				key.id = 0
			}
			rows = append(rows, keys.UsageRow{KeyID: key.id, Day: key.day, Requests: requests})
		}
		return rows, nil
	})
}

func (s keyStore) PruneUsage(ctx context.Context, before int64, most int) (removed int, err error) {
	return write(ctx, s.db, func() (removed int, err error) {
		for key := range s.db.usage {
			if key.day < before && removed < most {
				delete(s.db.usage, key)
				removed++
			}
		}
		return removed, nil
	})
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	return read(ctx, s.db, func() (keys.Changes, error) { return s.db.changes.since(since), nil })
}

func (keyStore) Shared() bool { return false }

const maxChanges = 10_000 // that a changeLog retains at least

// changeLog is the epoch and the log of changes of keys: entries with ascending epochs. The
// last has the current epoch, and the first may be a remainder of its change.
type changeLog []changeEntry

// changeEntry is a changed digest. The first entry of a log has none.
type changeEntry struct {
	epoch  int64
	digest *keys.Digest
}

func (l changeLog) epoch() int64 { return l[len(l)-1].epoch }

// add raises the epoch and adds digests.
func (l *changeLog) add(digests ...keys.Digest) {
	epoch := l.epoch() + 1 + rand.Int64N(1<<32)
	for _, digest := range digests {
		*l = append(*l, changeEntry{epoch, &digest})
	}
	if len(*l) > 2*maxChanges {
		*l = slices.Clone((*l)[len(*l)-maxChanges:])
	}
}

// since implements [keys.Store.Changes].
func (l changeLog) since(epoch int64) keys.Changes {
	changes := keys.Changes{Epoch: l.epoch()}
	byEpoch := func(e changeEntry, epoch int64) int { return cmp.Compare(e.epoch, epoch) }
	_, changes.Complete = slices.BinarySearchFunc(l, epoch, byEpoch)
	if !changes.Complete {
		return changes
	}
	next, _ := slices.BinarySearchFunc(l, epoch+1, byEpoch)
	for _, entry := range l[next:] {
		changes.Digests = append(changes.Digests, *entry.digest)
	}
	return changes
}
