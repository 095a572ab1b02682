package filefacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

var (
	errChanged = errors.New("changed")
	errPanic   = errors.New("the store panics")
)

// mapStore is a Store whose writes can fail.
type mapStore struct {
	mu      sync.Mutex
	records map[Key]Record
	writes  int
	longest int // write
	err     error
}

func (s *mapStore) FindFacts(_ context.Context, urls ...Key) (list []Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, url := range urls {
		if r, ok := s.records[url]; ok {
			list = append(list, r)
		}
	}
	return list, nil
}

func (s *mapStore) PutFacts(_ context.Context, records []Record, _ int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.longest = max(s.longest, len(records))
	if s.err == errPanic {
		panic(s.err)
	}
	if s.err != nil {
		return s.err
	}
	for _, r := range records {
		if s.records[r.URL].Revision <= r.Revision {
			s.records[r.URL] = r
		}
	}
	return nil
}

// factTest is a file with two processes that read it.
type factTest struct {
	t              *testing.T
	store          *mapStore
	process, other *Cache
	file           []byte
	read           int64 // bytes of the source
}

func newFactTest(t *testing.T, size int) *factTest {
	f := &factTest{
		t: t, store: &mapStore{records: make(map[Key]Record)},
		file: content(rand.New(rand.NewPCG(7, 8)), size),
	}
	f.process, f.other = New(f.store, errChanged), New(f.store, errChanged)
	t.Cleanup(func() { f.process.Flush(context.Background()) })
	return f
}

func (f *factTest) record() Record {
	return Record{URL: Key{1}, Validator: "v", Size: int64(len(f.file))}
}

func TestCache_BoundsWrites(t *testing.T) {
	t.Parallel()
	f := newFactTest(t, 1)
	f.store.mu.Lock() // the first write waits
	for i := range byte(250) {
		for j := range byte(8) {
			f.process.Confirm(Key{i, j}, "v", 1).SetCRC(1)
		}
	}
	f.store.mu.Unlock()
	is := is.New(t)
	is.NoErr(f.process.Flush(t.Context()))
	is.Equal(len(f.store.records), 2000)
	is.True(f.store.longest <= 500)
}

func (f *factTest) confirm(c *Cache) *Fact { return c.Confirm(Key{1}, "v", int64(len(f.file))) }

func (f *factTest) flush(c *Cache) {
	f.t.Helper()
	if err := c.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *factTest) open(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	f.read += length
	return io.NopCloser(bytes.NewReader(f.file[offset:][:length])), nil
}

func (f *factTest) part(fact *Fact, offset, length int64) ([]byte, error) {
	r, err := fact.Open(f.t.Context(), f.open, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// add adds blocks as another reader does.
func (f *factTest) add(fact *Fact, blocks ...int64) (err error) {
	for _, i := range blocks {
		err = errors.Join(err, fact.add(i*minBlock, crc32.ChecksumIEEE(f.file[i*minBlock:][:minBlock])))
	}
	return err
}

func TestReader_ReturnsNoByteOfABlockThatDiffers(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 3*minBlock+5)
	fact := f.confirm(f.process)
	got := must(f.part(fact, minBlock+1, 100))(t)
	is.True(bytes.Equal(got, f.file[minBlock+1:][:100]))
	f.flush(f.process)
	is.NoErr(f.other.Load(t.Context(), []Key{{1}}))
	known := f.confirm(f.other)

	f.file[minBlock]++ // the same validator
	for _, offset := range []int64{2 * minBlock, minBlock, minBlock + 50} {
		got, err := f.part(known, offset, 10)
		is.True(errors.Is(err, errChanged))
		is.Equal(len(got), 0)
	}
	is.Equal(f.store.records[Key{1}].Revision, int64(1)) // before the error is returned
	_, err := f.part(fact, 0, 1)                         // this process has not read the difference
	is.True(errors.Is(err, errChanged))
	next := f.confirm(f.process)
	is.Equal(next.Revision(), int64(1))
	_, err = f.process.Find(f.record())
	is.True(errors.Is(err, errChanged)) // a plan of before
	got = must(f.part(next, 0, int64(len(f.file))))(t)
	is.True(bytes.Equal(got, f.file))
}

func TestReader_ReturnsNoByteOfAnInvalidFact(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 3*usualBlock)
	fact := f.confirm(f.process)
	r := must(fact.Open(t.Context(), f.open, 0, int64(len(f.file))))(t)
	defer r.Close()
	must(io.ReadFull(r, make([]byte, usualBlock)))(t)
	fact.Invalidate() // by another response
	n, err := r.Read(make([]byte, 1))
	is.Equal(n, 0)
	is.True(errors.Is(err, errChanged))
}

// TestReader_KeepsItsBufferWhileItHasBytes has readers that take turns, so that each finds
// in the pool what the other has returned.
func TestReader_KeepsItsBufferWhileItHasBytes(t *testing.T) {
	is := is.New(t)
	files := []*factTest{newFactTest(t, 2*minBlock), newFactTest(t, 2*minBlock)}
	slices.Reverse(files[1].file)
	var readers [2]*Reader
	for i, f := range files {
		r := must(f.confirm(f.process).Open(t.Context(), f.open, 0, int64(len(f.file))))(t)
		defer r.Close()
		readers[i] = r
	}
	for offset, part := 0, make([]byte, minBlock/16); offset < 2*minBlock; offset += len(part) {
		for i, r := range readers {
			must(io.ReadFull(r, part))(t)
			is.True(bytes.Equal(part, files[i].file[offset:][:len(part)]))
		}
	}
}

func TestCache_FindComparesTheCRCOfThePlan(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 5)
	planned := uint32(7)
	find := func() (*Fact, error) {
		return f.process.Find(Record{URL: Key{1}, Validator: "v", Size: 5, CRC32: &planned})
	}
	fact := must(find())(t)
	_, err := f.part(fact, 0, 5)
	is.True(errors.Is(err, errChanged))
	f = newFactTest(t, 5)
	must(f.part(f.confirm(f.process), 0, 5))(t)
	_, err = find()
	is.True(errors.Is(err, errChanged))
	is.Equal(f.confirm(f.process).Revision(), int64(1))
}

func TestCache_RevisionOutlivesTheVersion(t *testing.T) {
	f := newFactTest(t, 5)
	f.confirm(f.process).Invalidate()
	is.New(t).Equal(f.process.Confirm(Key{1}, "w", 5).Revision(), int64(1))
}

// TestCache_PlanHasALaterRevision has a plan of another process, which has seen content
// that contradicts what this process knows.
func TestCache_PlanHasALaterRevision(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 5)
	f.confirm(f.process).SetCRC(7)
	planned := f.record()
	planned.Revision = 1
	found := must(f.process.Find(planned))(t)
	is.Equal(found.Revision(), int64(1))
	_, known := found.CRC()
	is.True(!known)
}

// TestCache_StoreHasAnEarlierRevision has content that this process has found to be wrong.
func TestCache_StoreHasAnEarlierRevision(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 5)
	f.confirm(f.process).Invalidate()
	fact := f.confirm(f.process)
	is.Equal(fact.Revision(), int64(1))
	stored := f.record()
	stored.CRC32 = new(uint32(7))
	f.store.records[stored.URL] = stored
	is.NoErr(f.process.Load(t.Context(), []Key{{1}}))
	_, known := fact.CRC()
	is.True(!known)
}

func TestCache_ProcessesAddToEachOther(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 3*minBlock)
	for i, c := range []*Cache{f.process, f.other, f.process} {
		must(f.part(f.confirm(c), int64(i)*minBlock, minBlock))(t)
		f.flush(c)
	}
	is.Equal(*f.store.records[Key{1}].CRC32, crc32.ChecksumIEEE(f.file))

	f = newFactTest(t, 3*minBlock)
	f.store.err = errors.New("unavailable") // so they do not know of each other
	var facts []*Fact
	for _, c := range []*Cache{f.process, f.other} {
		fact := f.confirm(c)
		must(f.part(fact, 0, minBlock))(t)
		f.flush(c)
		f.file[0]++
		facts = append(facts, fact)
	}
	f.store.err = nil
	for _, fact := range facts {
		must(f.part(fact, 2*minBlock, minBlock))(t)
		f.flush(fact.cache)
	}
	is.Equal(f.store.records[Key{1}].Revision, int64(1))
}

func TestFact_ReadMissingReadsEachByteOnce(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 10*minBlock+5)
	fact := f.confirm(f.process)
	for _, block := range []int64{2, 3, 7} {
		must(f.part(fact, block*minBlock, minBlock))(t)
	}
	f.read = 0
	crc := must(fact.ReadMissing(t.Context(), f.open))(t)
	is.Equal(crc, crc32.ChecksumIEEE(f.file))
	is.Equal(f.read, int64(8+4)*minBlock+5-minBlock) // 8 blocks of which one is short, and 4 known neighbors
	must(fact.ReadMissing(t.Context(), f.open))(t)
	is.Equal(f.read, int64(11)*minBlock+5) // nothing more
	f.flush(f.process)
	is.Equal(*f.store.records[Key{1}].CRC32, crc)
}

// TestFact_ReadMissingStopsWhereAnotherReaderWas has another reader of the second half.
func TestFact_ReadMissingStopsWhereAnotherReaderWas(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 10*usualBlock)
	fact := f.confirm(f.process)
	var read int64
	crc, err := fact.ReadMissing(t.Context(), func(_ context.Context, offset, length int64) (io.ReadCloser, error) {
		_, err := f.part(fact, 5*usualBlock, 5*usualBlock)
		return countingReader{bytes.NewReader(f.file[offset:][:length]), &read}, err
	})
	is.NoErr(err)
	is.Equal(crc, crc32.ChecksumIEEE(f.file))
	is.Equal(read, int64(6*usualBlock)) // one of them compared
}

// TestFact_ReadMissingWhileTheLastBlockIsAdded lets another reader add the block at any
// moment of it.
func TestFact_ReadMissingWhileTheLastBlockIsAdded(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 100)
	crc := crc32.ChecksumIEEE(f.file)
	for i := range 20_000 {
		fact := f.process.Confirm(Key{1}, fmt.Sprint(i), 100)
		added := make(chan error)
		go func() {
			for range i % 50 { // competes for the lock
				fact.CRC()
			}
			added <- fact.add(0, crc)
		}()
		is.Equal(must(fact.ReadMissing(t.Context(), f.open))(t), crc)
		is.NoErr(<-added)
	}
}

func TestFact_ReadMissingDoesNotWait(t *testing.T) {
	for name, c := range map[string]struct{ first, again []int64 }{
		"for itself, between known blocks": {[]int64{1, 3, 5, 7}, nil},
		"for a reader of known blocks":     {[]int64{0}, []int64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				f := newFactTest(t, 9*minBlock)
				fact := f.confirm(f.process)
				is.NoErr(f.add(fact, c.first...))
				time.Sleep(time.Minute)
				is.NoErr(f.add(fact, c.again...))
				start := time.Now()
				must(fact.ReadMissing(t.Context(), f.open))(t)
				is.Equal(time.Since(start), time.Duration(0)) // of the simulated clock
			})
		})
	}
}

func TestFact_ReadMissingWaitsForActiveReaders(t *testing.T) {
	for _, c := range []struct {
		name  string
		pause time.Duration // of the other reader after each block
		reads bool
	}{
		{"fast", 10 * time.Millisecond, false},
		{"stalled", time.Hour, true},
		{"slow", 19 * time.Millisecond, true}, // for longer than maxWait
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				f := newFactTest(t, 80*minBlock)
				fact := f.confirm(f.process)
				other, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				go func() {
					for i := range int64(80) {
						f.add(fact, i)
						select {
						case <-time.After(c.pause):
						case <-other.Done():
							return
						}
					}
				}()
				synctest.Wait()
				start := time.Now()
				is.Equal(must(fact.ReadMissing(t.Context(), f.open))(t), crc32.ChecksumIEEE(f.file))
				is.Equal(f.read > 0, c.reads)
				is.True(time.Since(start) <= maxWait+activeTime) // of the simulated clock
			})
		})
	}
}

type countingReader struct {
	io.Reader
	read *int64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	*r.read += int64(n)
	return n, err
}

func (countingReader) Close() error { return nil }

func TestFact_SetCRCInvalidatesAnother(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 5)
	fact := f.confirm(f.process)
	for range 2 {
		fact.SetCRC(7)
	}
	is.Equal(f.confirm(f.process), fact)
	f.flush(f.process)
	is.Equal(*f.store.records[Key{1}].CRC32, uint32(7))
	fact.SetCRC(8)
	next := f.confirm(f.process)
	is.Equal(next.Revision(), int64(1))
	_, known := next.CRC()
	is.True(!known)
	fact.SetCRC(9) // by who still reads the version before
	is.Equal(f.confirm(f.process), next)
}

func TestCache_WritesWhatIsNew(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 2*minBlock)
	writes := func() int {
		f.flush(f.process)
		n := f.store.writes
		f.store.writes = 0
		return n
	}
	fact := f.confirm(f.process)
	is.Equal(writes(), 0)

	f.store.err = errors.New("unavailable")
	for range 2 { // it is retried when the file is read again
		must(f.part(fact, 0, 1))(t)
		is.Equal(writes(), 1)
	}
	f.store.err = nil
	must(f.part(fact, 0, 1))(t)
	is.Equal(writes(), 1)
	must(f.part(fact, 0, 1))(t)
	is.Equal(writes(), 0)

	f.store.err = errPanic
	other := f.process.Confirm(Key{2}, "v", 1)
	other.SetCRC(7)
	is.Equal(writes(), 1)
	f.store.err = nil

	r := must(fact.Open(t.Context(), f.open, minBlock, minBlock))(t)
	fact.nextSave = time.Now().Add(-time.Second)
	must(r.Read(make([]byte, 1)))(t)
	is.Equal(writes(), 1) // long before it is closed
	is.NoErr(r.Close())
}

func TestCache_BoundsMemory(t *testing.T) {
	is := is.New(t)
	f := newFactTest(t, 2*minBlock)
	fact := f.confirm(f.process)
	evictions := 0
	for i := range 200 {
		before := len(f.process.facts)
		f.process.Confirm(Key{2, byte(i)}, "v", 4<<30)
		f.flush(f.process)
		is.True(f.process.cost <= maxCost)
		if len(f.process.facts) < before {
			evictions++
		}
	}
	is.Equal(evictions, 2)
	is.True(f.process.facts[Key{1}] == nil)
	must(f.part(fact, 0, 1))(t) // by a response that was reading it
	f.flush(f.process)
	is.True(f.process.facts[Key{1}] == fact)
	is.True(len(f.store.records[Key{1}].Blocks) > 0)

	sum := int64(0)
	for _, other := range f.process.facts {
		sum += other.cost()
	}
	is.Equal(f.process.cost, sum)
	f.process.Confirm(Key{1}, "w", minBlock) // in place of the other version
	is.Equal(f.process.cost, sum-1)
	f.store.writes = 0
	must(f.part(fact, minBlock, 1))(t)
	f.flush(f.process)
	is.Equal(f.store.writes, 0) // of the version before
}
