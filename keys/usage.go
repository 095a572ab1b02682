package keys

import (
	"cmp"
	"context"
	"errors"
	"time"
)

const (
	defaultUsageDays = 30  // of UsageFilter
	maxUsageDays     = 400 // of UsageFilter
	maxUsageIDs      = 100
)

// UsageFilter selects usage: of the last Days days, from 1 to 400, 30 if zero.
type UsageFilter struct {
	IDs   []int64 // up to 100 different keys; nil: the sum of all, deleted ones included
	Owner *string // only of requests while the key had this owner, see Usage; nil: of all
	Days  int
}

// KeyUsage is the usage of a key, or the sum of several with ID 0. Its days are
// consecutive, and today is the last one.
type KeyUsage struct {
	ID   int64
	Days []DayUsage
}

// DayUsage is how many requests were accepted on a UTC day, which begins at Day.
type DayUsage struct {
	Day      time.Time
	Requests int64
}

// Usage returns how many requests were accepted, as counted by UseCount: one element for
// each of the IDs in their order, or one for the sum. It lacks what was not written to the
// store yet, of the last [Options.FlushInterval]. What other processes write after a change
// of the owner counts for the new one, and after a deletion not at all. The error matches
// [ErrInvalid] or [ErrUnavailable], or is a [MissingError].
func (s *Service) Usage(ctx context.Context, filter UsageFilter) ([]KeyUsage, error) {
	filter.Days = cmp.Or(filter.Days, defaultUsageDays)
	if filter.Days < 1 || filter.Days > maxUsageDays {
		return nil, invalid("days must be a whole number from 1 to %d", maxUsageDays)
	}
	if filter.Owner != nil {
		if err := checkText("owner", *filter.Owner); err != nil {
			return nil, err
		}
	}
	ids := []int64{0}
	if filter.IDs != nil {
		ids = filter.IDs
		if err := checkIDs(ids, maxUsageIDs); err != nil {
			return nil, err
		}
		for _, id := range ids {
			if _, err := s.store.Get(ctx, id); errors.Is(err, ErrNotFound) {
				return nil, &MissingError{id}
			} else if err != nil {
				return nil, storeError("get key", err)
			}
		}
	}
	first := dayOf(s.Now().UnixMilli()) - int64(filter.Days) + 1
	list := make([]KeyUsage, len(ids))
	index := make(map[int64]int)
	for i, id := range ids {
		index[id], list[i] = i, KeyUsage{ID: id, Days: make([]DayUsage, filter.Days)}
		for j := range list[i].Days {
			list[i].Days[j].Day = time.UnixMilli((first + int64(j)) * day.Milliseconds()).UTC()
		}
	}
	rows, err := s.store.Usage(ctx, filter.IDs, filter.Owner, first)
	if err != nil {
		return nil, storeError("read usage", err)
	}
	for _, row := range rows {
		if i := row.Day - first; i < int64(filter.Days) { // not of a process with a wrong clock
			list[index[row.KeyID]].Days[i].Requests += row.Requests
		}
	}
	return list, nil
}
