package memory

import (
	"context"
	"slices"

	"example.com/canvasback/exports"
)

// storedFact is a fact under the id of its storage.
type storedFact struct {
	exports.Fact
	id int64
}

// factID is a fact in the order of storage. The fact may since have another id.
type factID struct {
	url [32]byte
	id  int64
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
			if s.db.facts[fact.URL].Revision > fact.Revision {
				continue
			}
			s.db.lastFactID++
			s.db.facts[fact.URL] = storedFact{cloneFact(fact), s.db.lastFactID}
			s.db.factOrder = append(s.db.factOrder, factID{fact.URL, s.db.lastFactID})
		}
		excess := max(0, len(s.db.factOrder)-limit)
		for _, oldest := range s.db.factOrder[:excess] {
			if s.db.facts[oldest.url].id == oldest.id {
				delete(s.db.facts, oldest.url)
			}
		}
		s.db.factOrder = s.db.factOrder[excess:]
		return nil
	})
}

func cloneFact(fact exports.Fact) exports.Fact {
	if fact.CRC32 != nil {
		crc := *fact.CRC32
		fact.CRC32 = &crc
	}
	fact.Blocks = slices.Clone(fact.Blocks)
	return fact
}
