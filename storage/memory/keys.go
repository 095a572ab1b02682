package memory

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/canvasback/keys"
)

type keyStore struct{ db *DB }

var _ keys.Store = keyStore{}

// errDigestTaken means a collision of SHA-256 digests.
var errDigestTaken = errors.New("memory: another key has the digest")

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return keys.Key{}, err
	}
	digests := digestsOf(key)
	if s.taken(0, digests) {
		return keys.Key{}, errDigestTaken
	}
	s.db.lastKeyID++
	key.ID, key.UseCount = s.db.lastKeyID, 0
	s.db.keys[key.ID] = key
	s.db.keyIDs = append(s.db.keyIDs, key.ID)
	s.db.moveKey(key.ID, "", key.Owner)
	for _, digest := range digests {
		s.db.digests[digest] = key.ID
	}
	s.db.changes.add(digests...)
	return key, nil
}

// moveKey moves an id from the list of one owner to that of another.
func (db *DB) moveKey(id int64, from, to string) {
	if from == to {
		return
	}
	if from != "" {
		if db.ownerIDs[from] = removeID(db.ownerIDs[from], id); len(db.ownerIDs[from]) == 0 {
			delete(db.ownerIDs, from)
		}
	}
	if to != "" {
		ids := db.ownerIDs[to]
		at, _ := slices.BinarySearch(ids, id)
		db.ownerIDs[to] = slices.Insert(ids, at, id)
	}
}

// removeID removes an id from an ascending list.
func removeID(ids []int64, id int64) []int64 {
	at, ok := slices.BinarySearch(ids, id)
	if !ok {
		return ids
	}
	return slices.Delete(ids, at, at+1)
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
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return keys.Key{}, err
	}
	key, ok := s.db.keys[id]
	if !ok {
		return keys.Key{}, keys.ErrNotFound
	}
	return key, nil
}

func (s keyStore) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return keys.Page{}, err
	}
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
}

func (s keyStore) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return keys.Key{}, err
	}
	previous, ok := s.db.keys[id]
	if !ok {
		return keys.Key{}, keys.ErrNotFound
	}
	key := previous
	if err := change(&key); err != nil {
		return keys.Key{}, err
	}
	key.ID, key.CreatedAt = previous.ID, previous.CreatedAt
	key.LastUsedAt, key.UseCount = previous.LastUsedAt, previous.UseCount
	if s.taken(id, digestsOf(key)) {
		return keys.Key{}, errDigestTaken
	}
	for _, digest := range digestsOf(previous) {
		delete(s.db.digests, digest)
	}
	for _, digest := range digestsOf(key) {
		s.db.digests[digest] = id
	}
	if key.Digest != previous.Digest || key.PreviousDigest != previous.PreviousDigest ||
		!key.PreviousExpiresAt.Equal(previous.PreviousExpiresAt) ||
		key.Active != previous.Active || !key.ExpiresAt.Equal(previous.ExpiresAt) ||
		key.Owner != previous.Owner || key.Scopes != previous.Scopes {
		s.db.changes.add(digestsOf(previous, key)...)
	}
	s.db.keys[id] = key
	s.db.moveKey(id, previous.Owner, key.Owner)
	return key, nil
}

func (s keyStore) Delete(ctx context.Context, id int64) (keys.Key, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return keys.Key{}, err
	}
	key, ok := s.db.keys[id]
	if !ok {
		return keys.Key{}, keys.ErrNotFound
	}
	delete(s.db.keys, id)
	s.db.keyIDs = removeID(s.db.keyIDs, id)
	s.db.moveKey(id, key.Owner, "")
	for _, digest := range digestsOf(key) {
		delete(s.db.digests, digest)
	}
	s.db.changes.add(digestsOf(key)...)
	return key, nil
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return keys.Key{}, err
	}
	id, ok := s.db.digests[digest]
	if !ok {
		return keys.Key{}, keys.ErrNotFound
	}
	return s.db.keys[id], nil
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, use := range uses {
		key, ok := s.db.keys[use.ID]
		if !ok || !key.CreatedAt.Equal(use.CreatedAt) || use.At.Before(key.CreatedAt) {
			continue
		}
		if use.At.After(key.LastUsedAt) || key.LastUsedAt.After(now.Add(keys.MaxClockSkew)) {
			key.LastUsedAt = use.At
		}
		key.UseCount += use.Count
		s.db.keys[use.ID] = key
	}
	return nil
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return keys.Changes{}, err
	}
	return s.db.changes.since(since), nil
}

func (keyStore) Shared() bool { return false }
