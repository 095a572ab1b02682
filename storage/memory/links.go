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
	s.db.linkOrder = slices.DeleteFunc(s.db.linkOrder, func(digest exports.Digest) bool {
		other := s.db.links[digest]
		remove := !other.ExpiresAt.After(link.CreatedAt) || other.Owner == link.Owner && other.Served >= limits.Served
		if remove {
			delete(s.db.links, digest)
		}
		return remove
	})
	owner, client := exports.LinkLimit{}, exports.LinkLimit{}
	for _, other := range s.db.links {
		if other.Owner == link.Owner {
			owner = exports.LinkLimit{Links: owner.Links + 1, Bytes: owner.Bytes + int64(len(other.Plan))}
		}
		if other.Owner == link.Owner && other.Client == link.Client {
			client = exports.LinkLimit{Links: client.Links + 1, Bytes: client.Bytes + int64(len(other.Plan))}
		}
	}
	if !fits(owner, link, limits.PerOwner) || !fits(client, link, limits.PerClient) {
		return exports.ErrTooManyLinks
	}
	link.Version, link.Served, link.Plan = 1, 0, slices.Clone(link.Plan)
	s.db.links[link.Digest] = link
	s.db.linkOrder = append(s.db.linkOrder, link.Digest)
	return nil
}

// fits reports whether there may be a link besides others.
func fits(others exports.LinkLimit, link exports.StoredLink, limit exports.LinkLimit) bool {
	return others.Links < limit.Links && others.Bytes+int64(len(link.Plan)) <= limit.Bytes
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return exports.StoredLink{}, err
	}
	return s.findLink(digest, withPlan)
}

// findLink is FindLink under the lock.
func (s exportStore) findLink(digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	link, ok := s.db.links[digest]
	if !ok {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	link.PlanSize = len(link.Plan)
	if link.Plan = slices.Clone(link.Plan); !withPlan {
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
	return s.findLink(digest, true)
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
