package memory

import (
	"context"
	"maps"
	"slices"

	"example.com/canvasback/exports"
)

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
