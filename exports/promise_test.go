package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// shelf is an origin with files that a test changes between two batches.
type shelf struct {
	*origin
	mu    sync.Mutex
	files map[string]shelved // by address
}

// shelved is a file of a shelf.
type shelved struct {
	content   []byte
	name      string
	unsized   bool // its size is not told
	gone      bool
	cut       bool // it ends in an error
	modified  time.Time
	exhausted bool // it says it has more than it gives
}

func newShelf() *shelf { return &shelf{origin: newOrigin(), files: make(map[string]shelved)} }

// put puts a file at an address, or another in its place.
func (s *shelf) put(address string, file shelved) {
	s.mu.Lock()
	s.files[address] = file
	s.mu.Unlock()
	s.does(address, func(context.Context) (*exports.File, error) {
		s.mu.Lock()
		file := s.files[address]
		s.mu.Unlock()
		if file.gone {
			return nil, exports.ErrFailed
		}
		var body io.Reader = bytes.NewReader(file.content)
		if file.cut {
			body = io.MultiReader(body, iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		size := int64(len(file.content))
		if file.exhausted {
			size++
		}
		if file.unsized {
			size = -1
		}
		return &exports.File{Body: io.NopCloser(body), Size: size, Name: file.name, Modified: file.modified}, nil
	})
}

// change changes the file at an address.
func (s *shelf) change(address string, change func(*shelved)) {
	s.mu.Lock()
	file := s.files[address]
	s.mu.Unlock()
	change(&file)
	s.put(address, file)
}

// clock is a clock that tests set.
type clock struct{ millis atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.millis.Store(time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) Now() time.Time      { return time.UnixMilli(c.millis.Load()) }
func (c *clock) add(d time.Duration) { c.millis.Add(d.Milliseconds()) }

// told is a batch as it was downloaded.
type told struct {
	size    int64
	archive []byte
	skipped []exports.Skipped
	err     error
}

// tell downloads a batch whose size is asked for, and checks what holds of
// each: it has the size that was told, or it fails and is no whole archive.
func tell(t *testing.T, s *exports.Service, sources []string) told {
	t.Helper()
	found, err := s.FindBatch(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := s.OpenBatch(t.Context(), found)
	if err != nil {
		return told{size: -1, err: err}
	}
	defer batch.Close()
	size := batch.Size()
	var out bytes.Buffer
	err = batch.WriteZip(&out)
	got := told{size, out.Bytes(), batch.Skipped(), err}
	if n := int64(out.Len()); size >= 0 && (n > size || err == nil && n != size) {
		t.Fatalf("%d bytes were told, %d written: %v", size, n, err)
	}
	if err != nil {
		if size >= 0 && int64(out.Len()) == size {
			t.Fatalf("all bytes that were told were written, and then: %v", err)
		}
		if _, err := zip.NewReader(bytes.NewReader(got.archive), int64(out.Len())); err == nil {
			t.Fatal("a torn archive is taken for a whole one")
		}
	}
	return got
}

// noise is what files are cut from.
var noise = func() []byte {
	b := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// stocked puts so many files on a shelf, all of the same size unless a test
// says otherwise, and registers them.
func stocked(t *testing.T, count int, options exports.Options, file func(i int) shelved) (*shelf, *exports.Service, []string) {
	t.Helper()
	o := newShelf()
	var addresses []string
	for i := range count {
		address := addressOf(i)
		o.put(address, file(i))
		addresses = append(addresses, address)
	}
	s := service(o.origin, options)
	return o, s, register(t, s, addresses...)
}

func addressOf(i int) string { return fmt.Sprintf("https://host-%d.example/dir/plan.bin?%d", i%4, i) }

func sized(size int) func(int) shelved {
	return func(i int) shelved { return shelved{content: noise[i : i+size : i+size]} }
}

// TestSize_fromMemory: the second download of more files than are opened ahead
// has a size, whatever they are and whether their origin tells theirs.
func TestSize_fromMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := exports.Options{Now: newClock().Now} // for the manifest
	o, s, sources := stocked(t, 60, options, func(i int) shelved {
		size := []int{1000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 65535 * 20, 2 << 20}[i%6]
		return shelved{content: noise[i : i+size : i+size], unsized: i%4 == 0, modified: time.Unix(int64(1e9+i), 0)}
	})
	o.fails("https://x.example/gone", exports.ErrFailed)
	_, _, err := s.Register(t.Context(), "gone", "https://x.example/gone", "")
	is.NoErr(err)
	sources = append(sources, sources[3], sources[0], sources[0], "unknown") // repeats
	first := tell(t, s, sources)
	is.NoErr(first.err)
	is.Equal(first.size, int64(-1))
	second := tell(t, s, sources)
	is.NoErr(second.err)
	is.Equal(second.size, int64(len(second.archive)))
	is.Equal(len(second.archive)-len(first.archive), 8) // the place for padding
	names, contents := entries(t, second.archive)
	firstNames, firstContents := entries(t, first.archive)
	is.Equal(names, firstNames)
	is.True(maps.Equal(contents, firstContents))

	withFailure := slices.Insert(slices.Clone(sources), 40, "gone")
	is.Equal(tell(t, s, withFailure).size, int64(-1)) // nothing is known of that file
	withFailure = slices.Insert(slices.Clone(sources), 1, "gone")
	got := tell(t, s, withFailure) // but if it has failed so early, that is known
	is.NoErr(got.err)
	is.Equal(got.size, int64(len(got.archive)))
}

func TestSize_whatMakesItUnknown(t *testing.T) {
	t.Parallel()
	large, tiny := sized(5000), sized(50)
	for name, c := range map[string]struct {
		options exports.Options
		file    func(i int) shelved
		before  func(t *testing.T, clock *clock, o *shelf, s *exports.Service)
		known   bool
	}{
		"nothing":                     {file: large, known: true},
		"nothing is to be remembered": {file: large, options: exports.Options{RememberFor: -1}},
		"it is long ago":              {file: large, before: func(_ *testing.T, clock *clock, _ *shelf, _ *exports.Service) { clock.add(time.Hour) }},
		"it is not so long ago": {file: large, known: true, before: func(_ *testing.T, clock *clock, _ *shelf, _ *exports.Service) {
			clock.add(time.Hour - time.Millisecond)
		}},
		"it is long ago by the option":               {file: large, options: exports.Options{RememberFor: time.Minute}, before: func(_ *testing.T, clock *clock, _ *shelf, _ *exports.Service) { clock.add(time.Minute) }},
		"a file is smaller than the word of its end": {file: func(i int) shelved { return map[bool]func(int) shelved{true: tiny, false: large}[i == 30](i) }},
		"an early file is so small":                  {file: func(i int) shelved { return map[bool]func(int) shelved{true: tiny, false: large}[i == 3](i) }, known: true},
		"a file is registered again": {file: large, before: func(t *testing.T, clock *clock, _ *shelf, s *exports.Service) {
			clock.add(time.Second)
			if _, _, err := s.Register(t.Context(), "source-30", addressOf(30), ""); err != nil {
				t.Fatal(err)
			}
		}},
		"a source has another file": {file: large, before: func(t *testing.T, clock *clock, o *shelf, s *exports.Service) {
			o.put("https://host-0.example/other", large(1))
			if _, _, err := s.Register(t.Context(), "source-30", "https://host-0.example/other", ""); err != nil {
				t.Fatal(err)
			}
		}},
		"a file could not be had meanwhile": {file: large, before: func(t *testing.T, _ *clock, o *shelf, s *exports.Service) {
			o.change(addressOf(30), func(f *shelved) { f.gone = true })
			if got := tell(t, s, []string{"source-0", "source-30"}); got.err != nil || len(got.skipped) != 1 {
				t.Fatal(got.err, got.skipped)
			}
			o.change(addressOf(30), func(f *shelved) { f.gone = false })
		}},
		"a file changed twice": {file: large, before: func(t *testing.T, _ *clock, o *shelf, s *exports.Service) {
			for range 2 {
				o.change(addressOf(30), func(f *shelved) { f.content = append(slices.Clone(f.content), 1) })
				if got := tell(t, s, []string{"source-0", "source-30"}); got.err != nil {
					t.Fatal(got.err)
				}
			}
		}},
		"a file changed once and was seen": {file: large, known: true, before: func(t *testing.T, _ *clock, o *shelf, s *exports.Service) {
			o.change(addressOf(30), func(f *shelved) { f.content = append(slices.Clone(f.content), 1) })
			if got := tell(t, s, []string{"source-0", "source-30"}); got.err != nil {
				t.Fatal(got.err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			clock := newClock()
			c.options.Now = clock.Now
			o, s, sources := stocked(t, 40, c.options, c.file)
			is.NoErr(tell(t, s, sources).err)
			if c.before != nil {
				c.before(t, clock, o, s)
			}
			got := tell(t, s, sources)
			is.NoErr(got.err)
			is.Equal(got.size >= 0, c.known)
			is.Equal(len(got.skipped), 0)
		})
	}
}

// TestSize_ofFilesThatAreNotAsTheyWere: what is told may turn out wrong. It is
// made up for within bounds; else the zip breaks, and the next one does not.
func TestSize_ofFilesThatAreNotAsTheyWere(t *testing.T) {
	t.Parallel()
	all := func(o *shelf, change func(*shelved)) {
		for i := range 40 {
			o.change(addressOf(i), change)
		}
	}
	one := func(o *shelf, change func(*shelved)) { o.change(addressOf(30), change) }
	last := func(o *shelf, change func(*shelved)) { o.change(addressOf(39), change) }
	gone := func(f *shelved) { f.gone = true }
	cutTo := func(n int) func(f *shelved) { return func(f *shelved) { f.content = f.content[:n] } }
	grow := func(f *shelved) { f.content = append(slices.Clone(f.content), 1) }
	// of this size are the two files that a test may change, and one more
	some := func(size int) func(i int) shelved {
		return func(i int) shelved {
			if i == 10 || i == 30 || i == 39 {
				return sized(size)(i)
			}
			return sized(100_000)(i)
		}
	}
	unsized := func(size int) func(i int) shelved {
		return func(i int) shelved { f := some(size)(i); f.unsized = i == 30 || i == 39; return f }
	}
	for name, c := range map[string]struct {
		file    func(i int) shelved
		change  func(o *shelf)
		breaks  bool
		skipped int
	}{
		"one is gone":                          {sized(100_000), func(o *shelf) { one(o, gone) }, false, 1},
		"a small one is gone":                  {sized(600), func(o *shelf) { one(o, gone) }, false, 1},
		"the last one is gone":                 {sized(100_000), func(o *shelf) { last(o, gone) }, false, 1},
		"a stream is gone":                     {some(1<<20 + 1), func(o *shelf) { one(o, gone) }, false, 1},
		"ten are gone":                         {sized(100_000), func(o *shelf) { between(20, 30, func(i int) { o.change(addressOf(i), gone) }) }, false, 10},
		"most are gone":                        {sized(100_000), func(o *shelf) { between(16, 40, func(i int) { o.change(addressOf(i), gone) }) }, true, 0},
		"a quarter is gone":                    {sized(150_000), func(o *shelf) { between(20, 29, func(i int) { o.change(addressOf(i), gone) }) }, false, 9},
		"more than a quarter is gone":          {sized(150_000), func(o *shelf) { between(20, 32, func(i int) { o.change(addressOf(i), gone) }) }, true, 0},
		"one breaks within its first megabyte": {sized(100_000), func(o *shelf) { one(o, func(f *shelved) { f.cut = true }) }, false, 1},
		"one has less than it says":            {sized(100_000), func(o *shelf) { one(o, func(f *shelved) { f.exhausted = true }) }, false, 1},
		"one has a byte less":                  {sized(100_000), func(o *shelf) { one(o, cutTo(99_999)) }, false, 0},
		"the last one has a byte less":         {sized(100_000), func(o *shelf) { last(o, cutTo(99_999)) }, false, 0},
		"the last one has next to nothing":     {sized(100_000), func(o *shelf) { last(o, cutTo(10)) }, false, 0},
		"one has next to nothing":              {sized(100_000), func(o *shelf) { one(o, cutTo(0)) }, false, 0},
		"all have less":                        {sized(100_000), func(o *shelf) { all(o, cutTo(99_000)) }, false, 0},
		"all are empty":                        {sized(100_000), func(o *shelf) { all(o, cutTo(0)) }, true, 0},
		"a stream is whole":                    {some(1<<20 + 1), func(o *shelf) { one(o, cutTo(1<<20)) }, false, 0},
		"a stream has next to nothing":         {some(1<<20 + 1), func(o *shelf) { one(o, cutTo(5)) }, false, 0},
		"the last stream has next to nothing":  {some(1<<20 + 1), func(o *shelf) { last(o, cutTo(5)) }, false, 0},
		"an unsized stream is smaller":         {unsized(2 << 20), func(o *shelf) { one(o, cutTo(1<<20+1)) }, false, 0},
		"the last unsized stream has less":     {unsized(2 << 20), func(o *shelf) { last(o, cutTo(2<<20-50_000)) }, false, 0},
		"the last unsized has much less":       {unsized(2 << 20), func(o *shelf) { last(o, cutTo(1<<20+1)) }, true, 0},
		"one has a byte more":                  {sized(100_000), func(o *shelf) { one(o, grow) }, true, 0},
		"all have a byte more":                 {sized(100_000), func(o *shelf) { all(o, grow) }, true, 0},
		"a whole one is a stream":              {some(1 << 20), func(o *shelf) { one(o, grow) }, true, 0},
		"an unsized one has more":              {unsized(100_000), func(o *shelf) { one(o, grow) }, true, 0},
		"an unsized stream has more":           {unsized(1<<20 + 1), func(o *shelf) { one(o, grow) }, true, 0},
		"one has more, but less than another has less": {sized(100_000), func(o *shelf) {
			o.change(addressOf(20), cutTo(99_999))
			one(o, grow)
		}, false, 0},
		"one has another name": {sized(100_000), func(o *shelf) { one(o, func(f *shelved) { f.name = "longer than plan.bin" }) }, false, 0},
		"all have other times": {sized(100_000), func(o *shelf) { all(o, func(f *shelved) { f.modified = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			o, s, sources := stocked(t, 40, exports.Options{}, c.file)
			is.NoErr(tell(t, s, sources).err)
			c.change(o)
			got := tell(t, s, sources)
			is.True(got.size >= 0)
			is.Equal(got.err != nil, c.breaks)
			if !c.breaks {
				is.Equal(len(got.skipped), c.skipped)
				checkEntries(t, o, sources, got)
			}
			again := tell(t, s, sources)
			is.NoErr(again.err)
			checkEntries(t, o, sources, again)
			if c.breaks {
				is.Equal(again.size, int64(-1))
			}
			if c.skipped == 0 && !c.breaks && !strings.HasSuffix(name, "next to nothing") { // which may not be skipped
				is.Equal(again.size, int64(len(again.archive)))
			}
		})
	}
}

func between(from, to int, do func(i int)) {
	for i := from; i < to; i++ {
		do(i)
	}
}

// checkEntries fails unless each item of a batch is there as it is on the
// shelf, or skipped because it cannot be had.
func checkEntries(t *testing.T, o *shelf, sources []string, got told) {
	t.Helper()
	names, contents := entries(t, got.archive)
	skipped := got.skipped
	var rest []string
	for _, source := range sources {
		if len(skipped) > 0 && skipped[0].SourceURL == source {
			skipped = skipped[1:]
			continue
		}
		rest = append(rest, source)
	}
	if len(skipped) > 0 {
		t.Fatalf("%v are skipped out of order", skipped)
	}
	if len(got.skipped) > 0 {
		if names[len(names)-1] != "manifest.json" {
			t.Fatalf("the last of %d entries is %s", len(names), names[len(names)-1])
		}
		if n := strings.Count(contents["manifest.json"], `"reason"`); n != len(got.skipped) {
			t.Fatalf("%d reasons are given for %d files", n, len(got.skipped))
		}
		names = names[:len(names)-1]
	}
	if len(names) != len(rest) {
		t.Fatalf("%d entries for %d files", len(names), len(rest))
	}
	for i, source := range rest {
		var n int
		if _, err := fmt.Sscanf(source, "source-%d", &n); err != nil {
			t.Fatal(err)
		}
		if file := o.files[addressOf(n)]; contents[names[i]] != string(file.content) {
			t.Fatalf("%s has %d bytes, want the %d of %s", names[i], len(contents[names[i]]), len(file.content), source)
		}
	}
}

// TestSize_ofFileMadeAnew: a file whose size is another at each request breaks
// one download, or two if the size is not told, and not each second one.
func TestSize_ofFileMadeAnew(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"whole": 5000, "stream": 1<<20 + 1} {
		for _, unsized := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unsized: %t", name, unsized), func(t *testing.T) {
				t.Parallel()
				o, s, sources := stocked(t, 40, exports.Options{}, sized(5000))
				o.put(addressOf(30), shelved{content: noise[:size:size], unsized: unsized})
				broken := 0
				for range 10 {
					if tell(t, s, sources).err != nil {
						broken++
					}
					o.change(addressOf(30), func(f *shelved) { f.content = append(slices.Clone(f.content), 1) })
				}
				most := 1
				if unsized && size > 1<<20 {
					most = 2
				}
				if broken > most {
					t.Errorf("%d of 10 downloads broke", broken)
				}
			})
		}
	}
}

func TestSize_namesAreAsTheyWerePromised(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o, s, sources := stocked(t, 20, exports.Options{}, sized(5000))
	if _, _, err := s.Register(t.Context(), sources[19], addressOf(19), "registered.bin"); err != nil {
		t.Fatal(err)
	}
	is.NoErr(tell(t, s, sources).err)
	o.change(addressOf(17), func(f *shelved) { f.gone = true })
	o.change(addressOf(18), func(f *shelved) { f.name = "other.bin" })
	o.change(addressOf(19), func(f *shelved) { f.name = "other.bin" })
	got := tell(t, s, sources)
	is.NoErr(got.err)
	is.True(got.size > 0)
	names, _ := entries(t, got.archive)
	is.Equal(names[16:], []string{"plan-16.bin", "plan-18.bin", "registered.bin", "manifest.json"})
	o.change(addressOf(17), func(f *shelved) { f.gone = false })
	got = tell(t, s, sources)
	names, _ = entries(t, got.archive)
	is.Equal(names[16:], []string{"plan-16.bin", "plan-17.bin", "other.bin", "registered.bin"})
}

// TestSize_ofAnything makes batches of files that come, go, change and break.
func TestSize_ofAnything(t *testing.T) {
	t.Parallel()
	const files = 40
	var mu sync.Mutex
	outcomes := make(map[string]int)
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 1))
				least := 400 * random.IntN(4) // in a quarter of the cases too small to be left out
				some := func() shelved {
					n := least + random.IntN(300)
					switch random.IntN(60) {
					case 0:
						n = 1<<20 - 1 + random.IntN(3)
					case 1:
						n = 1<<20 + random.IntN(1<<20)
					case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13:
						n = least + random.IntN(200_000)
					}
					from := random.IntN(1 << 20)
					return shelved{content: noise[from : from+n : from+n], unsized: random.IntN(16) == 0, modified: time.Unix(random.Int64N(1<<33), 0)}
				}
				o, s, _ := stocked(t, files, exports.Options{Ahead: 1 + random.IntN(8)}, func(int) shelved { return some() })
				for range 3 {
					var sources []string
					for range 10 + random.IntN(30) {
						sources = append(sources, fmt.Sprintf("source-%d", random.IntN(files+files/40*random.IntN(2))))
					}
					tell(t, s, sources) // so that something is remembered
					cut, changed := false, false
					gone := make(map[string]int) // sizes of files that are not there, by source
					for range random.IntN(9) {
						n := random.IntN(files)
						address := addressOf(n)
						kind := random.IntN(7)
						changed = changed || kind > 1
						switch kind {
						case 0, 1:
							o.change(address, func(f *shelved) {
								f.gone = true
								gone[fmt.Sprintf("source-%d", n)] = len(f.content)
							})
						case 2:
							o.put(address, some())
						case 3:
							o.change(address, func(f *shelved) { f.content = f.content[:len(f.content)-min(len(f.content), 1+random.IntN(100))] })
						case 4:
							o.change(address, func(f *shelved) { f.gone, f.unsized = false, !f.unsized })
						case 5:
							o.change(address, func(f *shelved) { f.content = append(slices.Clone(f.content), 1) })
						case 6:
							cut = true
							o.change(address, func(f *shelved) { f.cut = true })
						}
					}
					got := tell(t, s, sources)
					outcome := fmt.Sprintf("size known: %t, broken: %t", got.size >= 0, got.err != nil)
					if got.err == nil {
						checkEntries(t, o, sources, got)
					} else if got.size < 0 && !cut && !errors.As(got.err, new(*exports.BatchError)) {
						t.Errorf("a batch without a size breaks: %v", got.err)
					}
					missing := 0
					for _, source := range sources {
						missing += gone[source]
					}
					if got.size >= 0 && got.err != nil && !changed && missing < 1<<19 {
						t.Errorf("%d missing bytes break a batch: %v", missing, got.err)
					}
					for i := range files {
						o.change(addressOf(i), func(f *shelved) { f.gone, f.cut = false, false })
					}
					if again := tell(t, s, sources); again.err == nil {
						checkEntries(t, o, sources, again)
					} else if !errors.As(again.err, new(*exports.BatchError)) && !cut {
						t.Errorf("the next try breaks too: %v, %v", got.err, again.err)
					}
					mu.Lock()
					outcomes[outcome]++
					mu.Unlock()
				}
			})
		}
	})
	t.Log(outcomes)
	for _, broken := range []bool{false, true} {
		if outcomes[fmt.Sprintf("size known: true, broken: %t", broken)] == 0 {
			t.Errorf("no size was told of a batch with broken: %t", broken)
		}
	}
}

// A file that is there and lost by its turn, again and again, breaks what was
// promised once only.
func TestSize_ofFileThatIsAlwaysLost(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShelf()
	service := service(s.origin, exports.Options{})
	s.put("https://x.example/a", shelved{content: []byte(strings.Repeat("a", 1000))})
	s.does("https://x.example/lost", func(context.Context) (*exports.File, error) {
		body := io.MultiReader(strings.NewReader(strings.Repeat("l", 1<<20+10)), iotest.ErrReader(io.ErrUnexpectedEOF))
		return &exports.File{Body: io.NopCloser(body), Size: 8 << 20}, nil
	})
	sources := register(t, service, "https://x.example/a", "https://x.example/lost")
	try := func() error {
		found, err := service.FindBatch(t.Context(), sources)
		is.NoErr(err)
		batch, err := service.OpenBatch(t.Context(), found)
		is.NoErr(err)
		defer batch.Close()
		batch.Size()
		return batch.WriteZip(io.Discard)
	}
	is.True(try() != nil) // too much would be padding
	for range 3 {
		is.NoErr(try())
	}
}
