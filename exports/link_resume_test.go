package exports_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/ziptest"
	"example.com/canvasback/storage/testflag"
)

// largeFiles returns four files, of 4 GiB together with the flag -long.
func largeFiles() []fakeFile {
	size := int64(64 << 20)
	if *testflag.Long {
		size = 1 << 30
	}
	return []fakeFile{newFile(size, 1), newFile(size-1, 2), newFile(size+77, 3), newFile(size, 4)}
}

var errCut = errors.New("connection lost")

type cutWriter struct{ left int64 }

func (w *cutWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		return 0, errCut
	}
	return len(p), nil
}

func TestLink_ResumeReadsOnlyTheRest(t *testing.T) {
	for _, process := range []string{"same", "other", "restarted", "nothing remembered"} {
		t.Run(process, func(t *testing.T) {
			is := is.New(t)
			l := newLinkTest(t, largeFiles()...)
			s := l.service(exports.Options{})
			other := l.service(exports.Options{})
			link := l.create(s)
			cut := link.Size / 100 * 95
			is.True(errors.Is(discard(t, link, &cutWriter{cut}, 0, link.Size), errCut))
			is.NoErr(s.Flush(t.Context()))
			limit := link.Size/100*5 + 1<<20
			switch process {
			case "other":
				s = other
			case "restarted":
				s = l.service(exports.Options{})
			case "nothing remembered":
				s = l.service(exports.Options{})
				l.forgetFacts()
				limit = link.Size + 1<<20 // each byte once
			}
			l.origin.bytes.Store(0)
			is.NoErr(discard(t, l.find(s, link.Token), io.Discard, cut, link.Size-cut))
			read := l.origin.bytes.Load()
			t.Logf("%d bytes read for %d", read, link.Size-cut)
			is.True(read <= limit)
		})
	}
}

// TestLink_ReadsMissingFilesLast requests the rest of a link, and nothing is known of what
// is before it.
func TestLink_ReadsMissingFilesLast(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l, _, link := newLink(t, newFiles(12, 3<<20)...)
		l.origin.onRead = func(string, int64) { time.Sleep(time.Millisecond) }
		start := link.Size * 2 / 5 // within a file
		w := &sectionWriter{out: io.Discard, choose: func(*exports.Link) (exports.Section, error) {
			return exports.Section{Offset: start, Length: link.Size - start}, nil
		}}
		must(link.Serve(t.Context(), w))(t)
		is.True(w.flushed > 0)
		read := l.origin.bytes.Load()
		t.Logf("%d bytes read for %d", read, link.Size-start)
		is.True(read <= link.Size+1<<20)
	})
}

func TestLink_ReadsMissingFilesInParallel(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l, _, link := newLink(t, newFiles(8, 1<<20)...)
		l.origin.delay = time.Second
		start := time.Now()
		is.NoErr(discard(t, link, io.Discard, link.Size-450, 450)) // most of the central directory
		is.True(time.Since(start) <= 3100*time.Millisecond)        // one second to check the first file, and two for four files at a time
	})
}

// TestLink_LeavesMissingFilesToOtherRanges requests the central directory, which needs all
// CRCs, a moment before the rest.
func TestLink_LeavesMissingFilesToOtherRanges(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		const size = 1 << 20
		l, _, link := newLink(t, newFiles(2, size)...)
		l.origin.onRead = func(string, int64) { time.Sleep(time.Millisecond) }
		l.origin.bytes.Store(0)
		var last error
		var ranges sync.WaitGroup
		ranges.Go(func() { last = discard(t, link, io.Discard, link.Size-200, 200) })
		time.Sleep(10 * time.Millisecond)
		is.NoErr(discard(t, link, io.Discard, 0, link.Size-200))
		ranges.Wait()
		is.NoErr(last)
		is.True(l.origin.bytes.Load() <= 2*size+(32<<10)) // at most a block of each is compared
	})
}

func TestLink_ParallelRangesReadEachByteOnce(t *testing.T) {
	l, _, link := newLink(t, largeFiles()...)

	const parts = 8
	size := link.Size/parts + 1
	var group sync.WaitGroup
	for i := range int64(parts) {
		group.Go(func() {
			if err := discard(t, link, io.Discard, i*size, min(size, link.Size-i*size)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	read := l.origin.bytes.Load()
	t.Logf("%d bytes read for %d", read, link.Size)
	is.New(t).True(read < 2*link.Size)
}

// The test is not parallel, because it measures the heap.
func TestLink_MemoryDoesNotGrowWithParallelRanges(t *testing.T) {
	const ranges = 64
	for _, c := range []struct {
		count int
		size  int64
	}{{4, 1 << 30}, {64, 64 << 20}, {1000, 4 << 20}, {4000, 1 << 20}} {
		t.Run(fmt.Sprintf("%d files", c.count), func(t *testing.T) {
			l := newLinkTest(t, newFiles(c.count, c.size)...)
			s := l.service(exports.Options{LinkRequests: ranges, MaxItems: c.count})
			link := l.create(s)
			meter := ziptest.NewHeapMeter()
			var mu sync.Mutex
			var group sync.WaitGroup
			for i := range int64(ranges) {
				group.Go(func() {
					w := writerFunc(func(p []byte) (int, error) {
						mu.Lock()
						defer mu.Unlock()
						meter.Write(p[:min(len(p), 4<<10)]) // measures seldom
						return len(p), nil
					})
					if err := discard(t, link, w, link.Size/ranges*i, 4<<20); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			t.Logf("%d MiB", meter.Growth()>>20)
			if meter.Growth() > 96<<20 { // 64 parts of 4 MiB would be 256
				t.Errorf("%d ranges took %d MiB", ranges, meter.Growth()>>20)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCreateLink_TakesFewRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l := newLinkTest(t, newFiles(100, 10_000)...)
		l.origin.delay = 50 * time.Millisecond
		l.sources = slices.Repeat(l.sources, 10) // the file of a URL is described once
		s := l.service(exports.Options{})
		start := time.Now()
		link := l.create(s)
		is.True(time.Since(start) <= 500*time.Millisecond)
		l.readAll(link)
		is.NoErr(s.Flush(t.Context()))
	})
}

// TestLink_NeverMixesStates downloads through lost connections while files change,
// and compares the result with the states that each file has had.
func TestLink_NeverMixesStates(t *testing.T) {
	runs := uint64(20)
	if *testflag.Long {
		runs = 1000
	}
	outcomes := make(map[string]int)
	for seed := range runs {
		outcome := faultRun(t, seed)
		outcomes[outcome]++
		if outcome == "mixed" {
			t.Errorf("run %d: the archive mixes states", seed)
		}
	}
	t.Log(outcomes)
	if outcomes["complete"] < int(runs)*9/10 {
		t.Errorf("outcomes are %v, want more complete archives", outcomes)
	}
}

func faultRun(t *testing.T, seed uint64) string {
	is := is.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	const count = 5
	var files []fakeFile
	for i := range count {
		files = append(files, newFile(r.Int64N(1500<<10), seed*1000+uint64(i)))
	}
	l := newLinkTest(t, files...)
	services := []*exports.Service{l.service(exports.Options{}), l.service(exports.Options{})}
	states := make([][]fakeFile, count) // all that each file has been
	for i := range files {
		states[i] = append(states[i], files[i])
	}
	var mu sync.Mutex
	changes, next := 1+r.IntN(4), uint64(100)
	change := func() {
		changes--
		i, f := r.IntN(count), fakeFile{}
		current, err := l.origin.get(fileURL(i))
		if err != nil {
			return
		}
		next++
		switch f = newFile(r.Int64N(1500<<10), seed*1000+next); r.IntN(6) {
		case 0: // replaced
		case 1: // shrunk
			f = newFile(current.size/2, seed*1000+next)
		case 2: // grown
			f = newFile(current.size+1000, seed*1000+next)
		case 3: // replaced with equal size
			f = newFile(current.size, seed*1000+next)
		case 4: // the validator lies
			f = newFile(current.size, seed*1000+next)
			f.validator = current.validator
		case 5:
			l.origin.remove(fileURL(i))
			return
		}
		f.name = current.name
		states[i] = append(states[i], f)
		l.origin.set(fileURL(i), f)
	}
	l.origin.onRead = func(string, int64) {
		mu.Lock()
		defer mu.Unlock()
		if changes > 0 && r.IntN(20) == 0 {
			change()
		}
	}
	link := l.create(services[0])
	var body []byte
	tag, size := link.ETag, link.Size
	for range 60 {
		mu.Lock()
		s, cut := services[r.IntN(2)], r.Int64N(3<<20)
		mu.Unlock()
		for _, service := range services { // what they learn is stored within milliseconds
			is.NoErr(service.Flush(t.Context()))
		}
		left := cut
		w := &sectionWriter{out: writerFunc(func(p []byte) (int, error) {
			if left -= int64(len(p)); left < 0 {
				return 0, errCut
			}
			body = append(body, p...)
			return len(p), nil
		}), choose: func(l *exports.Link) (exports.Section, error) {
			if l.ETag != tag {
				body, tag = nil, l.ETag
			}
			size = l.Size
			return exports.Section{Offset: int64(len(body)), Length: size - int64(len(body))}, nil
		}}
		if _, err := l.find(s, link.Token).Serve(t.Context(), w); err == nil && int64(len(body)) == size {
			return compareStates(body, states)
		}
	}
	return "incomplete"
}

// compareStates reports whether each file in an archive is one of its states.
func compareStates(archive []byte, states [][]fakeFile) string {
	names, contents, err := tryReadZip(archive)
	if err != nil {
		return "checksum mismatch"
	}
	for _, name := range names {
		if name == "manifest.json" {
			continue
		}
		found := false
		for _, list := range states {
			for _, f := range list {
				found = found || f.name == name && contents[name] == string(contentOf(f))
			}
		}
		if !found {
			return "mixed"
		}
	}
	return "complete"
}
