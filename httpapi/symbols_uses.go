package httpapi

import "hash/maphash"

// useCounter estimates how often keys were used lately. Keys may share counters, so it
// takes the lower of two counts.
type useCounter struct {
	counts [1 << 16]uint8
	total  int
}

var useSeed = maphash.MakeSeed()

func (u *useCounter) counters(key bodyKey) (first, second *uint8) {
	hash := maphash.Comparable(useSeed, key)
	return &u.counts[hash%uint64(len(u.counts))], &u.counts[hash>>32%uint64(len(u.counts))]
}

// add counts a use. After ten uses for each of the entries of a cache it halves all
// counts, so that old ones fade.
func (u *useCounter) add(key bodyKey, entries int) {
	const most = 15
	first, second := u.counters(key)
	*first, *second = min(*first+1, most), min(*second+1, most)
	if u.total++; u.total > 10*max(entries, 100) {
		u.total = 0
		for i := range u.counts {
			u.counts[i] /= 2
		}
	}
}

func (u *useCounter) of(key bodyKey) uint8 {
	first, second := u.counters(key)
	return min(*first, *second)
}
