package memory

import (
	"context"
	"slices"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	link.Version, link.Served, link.Plan = 1, 0, slices.Clone(link.Plan)
	s.db.links[link.Digest] = link
	s.db.linkOrder = append(s.db.linkOrder, link.Digest)

	owned := 0
	for _, other := range s.db.links {
		if other.Owner == link.Owner {
			owned++
		}
	}
	total := len(s.db.links)
	s.db.linkOrder = slices.DeleteFunc(s.db.linkOrder, func(digest exports.Digest) bool {
		other := s.db.links[digest]
		ofOwner := other.Owner == link.Owner
		remove := !other.ExpiresAt.After(link.CreatedAt) || total > limits.Total || ofOwner && owned > limits.PerOwner
		if !remove {
			return false
		}
		total--
		if ofOwner {
			owned--
		}
		delete(s.db.links, digest)
		return true
	})
	return nil
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, known int64) (exports.StoredLink, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return exports.StoredLink{}, err
	}
	return s.findLink(digest, known)
}

// findLink is FindLink under the lock.
func (s exportStore) findLink(digest exports.Digest, known int64) (exports.StoredLink, error) {
	link, ok := s.db.links[digest]
	if !ok {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	link.Plan = slices.Clone(link.Plan)
	if link.Version == known {
		link.Plan = nil
	}
	return link, nil
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return exports.StoredLink{}, err
	}
	if link := s.db.links[digest]; link.Version == version && version > 0 {
		link.Version++
		link.Plan = slices.Clone(plan)
		s.db.links[digest] = link
	}
	return s.findLink(digest, 0)
}

func (s exportStore) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if link, ok := s.db.links[digest]; ok {
		link.Served += amount
		s.db.links[digest] = link
	}
	return nil
}
