package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"example.com/canvasback/keys"
)

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
