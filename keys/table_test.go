package keys

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/matryer/is"
)

// TestTable_OneKeyTakesFewSlots puts many page tokens of one key into a full set.
func TestTable_OneKeyTakesFewSlots(t *testing.T) {
	is := is.New(t)
	const ways = 16 * maxOfKey
	list := newTable(ways, ways)
	count := func(id int64) (n int) {
		for i := range list.slots {
			if e := list.slots[i].Load(); e != nil && e.key.ID == id {
				n++
			}
		}
		return n
	}
	put := func(id int64, number uint64) *entry {
		e := &entry{key: Key{ID: id}, read: time.Now()}
		binary.NativeEndian.PutUint64(e.digest[8:], number)
		list.put(e)
		return e
	}
	for i := range uint64(ways - maxOfKey) {
		put(int64(i+2), i)
	}
	var last *entry
	for i := range uint64(10 * ways) {
		last = put(1, ways+i)
	}
	is.Equal(count(1), maxOfKey)
	for i := range int64(ways - maxOfKey) {
		is.Equal(count(i+2), 1) // of the others, none is evicted
	}
	is.Equal(list.get(&last.digest, time.Now()), last)
}
