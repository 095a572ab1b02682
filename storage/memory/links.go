package memory

import (
	"context"
	"maps"
	"slices"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	return s.db.change(ctx, func() error {
		hasEnded := func(_ exports.Digest, other exports.StoredLink) bool {
			return !other.ExpiresAt.After(link.CreatedAt) || other.Owner == link.Owner && other.Served >= limits.Served
		}
		owner, client := limits.PerOwner, limits.PerClient // less what there is
		for digest, other := range s.db.links {
			if other.Owner == link.Owner && !hasEnded(digest, other) {
				owner = subtract(owner, other)
				if other.Client == link.Client {
					client = subtract(client, other)
				}
			}
		}
		for _, left := range []exports.LinkLimit{subtract(owner, link), subtract(client, link)} {
			if left.Links < 0 || left.Bytes < 0 {
				return exports.ErrTooManyLinks
			}
		}
		maps.DeleteFunc(s.db.links, hasEnded)
		link.Version, link.Served, link.Plan = 1, 0, slices.Clone(link.Plan)
		s.db.links[link.Digest] = link
		return nil
	})
}

func subtract(limit exports.LinkLimit, link exports.StoredLink) exports.LinkLimit {
	return exports.LinkLimit{Links: limit.Links - 1, Bytes: limit.Bytes - int64(len(link.Plan))}
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	return read(ctx, s.db, func() (exports.StoredLink, error) { return s.findLink(digest, withPlan) })
}

// findLink is FindLink under the lock.
func (s exportStore) findLink(digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	link, err := find(s.db.links, digest, exports.ErrLinkNotFound)
	link.PlanSize = len(link.Plan)
	if link.Plan = slices.Clone(link.Plan); !withPlan {
		link.Plan = nil
	}
	return link, err
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	return write(ctx, s.db, func() (exports.StoredLink, error) {
		if link := s.db.links[digest]; link.Version == version && version > 0 {
			link.Version++
			link.Plan = slices.Clone(plan)
			s.db.links[digest] = link
		}
		return s.findLink(digest, true)
	})
}

func (s exportStore) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	return s.db.change(ctx, func() error {
		if link, ok := s.db.links[digest]; ok {
			link.Served += amount
			s.db.links[digest] = link
		}
		return nil
	})
}

// storedFact is a fact under the id of its storage.
type storedFact struct {
	exports.Fact
	id int64
}

func (s exportStore) FindFacts(ctx context.Context, urls ...[32]byte) ([]exports.Fact, error) {
	return read(ctx, s.db, func() ([]exports.Fact, error) {
		var list []exports.Fact
		for _, url := range urls {
			if stored, ok := s.db.facts[url]; ok {
				list = append(list, cloneFact(stored.Fact))
			}
		}
		return list, nil
	})
}

func (s exportStore) PutFacts(ctx context.Context, facts []exports.Fact, limit int) error {
	return s.db.change(ctx, func() error {
		for _, fact := range facts {
			if s.db.facts[fact.URL].Revision <= fact.Revision {
				s.db.lastFactID++
				s.db.facts[fact.URL] = storedFact{cloneFact(fact), s.db.lastFactID}
			}
		}
		oldest := s.db.lastFactID - int64(limit)
		maps.DeleteFunc(s.db.facts, func(_ [32]byte, fact storedFact) bool { return fact.id <= oldest })
		return nil
	})
}

func cloneFact(fact exports.Fact) exports.Fact {
	if fact.CRC32 != nil {
		fact.CRC32 = new(*fact.CRC32)
	}
	fact.Blocks = slices.Clone(fact.Blocks)
	return fact
}
