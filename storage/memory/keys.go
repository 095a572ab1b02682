package memory

import (
	"context"
	"errors"
	"maps"
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
	if _, taken := s.db.digests[key.Digest]; taken {
		return keys.Key{}, errDigestTaken
	}
	s.db.lastKeyID++
	key.ID, key.UseCount = s.db.lastKeyID, 0
	s.db.keys[key.ID] = key
	s.db.digests[key.Digest] = key.ID
	s.db.changes.add(key.Digest)
	return key, nil
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

func (s keyStore) List(ctx context.Context) ([]keys.Key, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list := make([]keys.Key, 0, len(s.db.keys))
	for _, id := range slices.Sorted(maps.Keys(s.db.keys)) {
		list = append(list, s.db.keys[id])
	}
	return list, nil
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
	if key.Digest != previous.Digest {
		if _, taken := s.db.digests[key.Digest]; taken {
			return keys.Key{}, errDigestTaken
		}
		delete(s.db.digests, previous.Digest)
		s.db.digests[key.Digest] = id
	}
	switch {
	case key.Digest != previous.Digest:
		s.db.changes.add(previous.Digest, key.Digest)
	case key.Active != previous.Active || !key.ExpiresAt.Equal(previous.ExpiresAt):
		s.db.changes.add(key.Digest)
	}
	s.db.keys[id] = key
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
	delete(s.db.digests, key.Digest)
	s.db.changes.add(key.Digest)
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
