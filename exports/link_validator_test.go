package exports_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// lie replaces the content of a file, and keeps its size and validator.
func (l *linkTest) lie(i int, seed uint64) fakeFile {
	l.t.Helper()
	f := must(l.origin.get(fileURL(i)))(l.t)
	f.seed = seed
	l.origin.set(fileURL(i), f)
	return f
}

func TestLink_NoticesChangeInAnyPartOfAKnownBlock(t *testing.T) {
	for _, size := range []int64{100, 300_000, 3_000_000} {
		is := is.New(t)
		l := newLinkTest(t, newFile(size, 1))
		s := l.service(exports.Options{})
		link := single(t, s, l.sources[0])
		must(read(t, link, size/2, 10))(t) // makes the block known
		l.lie(0, 2)
		for _, offset := range []int64{size/2 - 10, size / 2, size/2 + 20} {
			got, err := read(t, link, offset, 5)
			is.Equal(err, errRenewed)
			is.Equal(len(got), 0)
		}
	}
}

func TestLink_InvalidFactOutdatesPlansOfAllProcesses(t *testing.T) {
	for i := range 2 { // a streamed file, and one whose header includes its CRC
		is := is.New(t)
		l := newLinkTest(t, newFile(3<<20, 1), newFile(200, 2))
		s, other := l.service(exports.Options{}), l.service(exports.Options{})
		link, second := l.create(s), l.create(s)
		for _, service := range []*exports.Service{s, other} { // both know the CRC
			l.readAll(l.find(service, link.Token))
			is.NoErr(service.Flush(t.Context()))
		}
		changed := l.lie(i, 3)
		is.True(isLost(readError(t, l.find(s, link.Token), 0, link.Size)))
		renewed, _, err := readCurrent(t.Context(), l.find(s, link.Token))
		is.NoErr(err)
		is.True(renewed.ETag != link.ETag)
		found := l.find(other, link.Token)
		is.Equal(found.ETag, renewed.ETag)
		_, contents := readZip(t, l.readAll(found))
		is.True(contents[fmt.Sprintf("%d.bin", i+1)] == string(contentOf(changed)))

		is.True(isLost(readError(t, l.find(s, second.Token), 0, second.Size))) // never mixed with what it was
	}
}

func TestLink_UnstableValidatorIsNone(t *testing.T) {
	is := is.New(t)
	unstable := newFile(2<<20, 2)
	unstable.unstable = true
	l := newLinkTest(t, newFile(2<<20, 1), unstable)
	clock := time.Now()
	s := l.service(exports.Options{Now: func() time.Time { return clock }})
	link := l.create(s)
	is.True(isLost(readError(t, link, 0, link.Size)))
	found, _ := l.renew(l.find(s, link.Token))
	is.True(!found.Resumable())
	unstable.unstable = false
	l.origin.set(fileURL(1), unstable)
	clock = clock.Add(time.Hour)
	found, _ = l.renew(l.find(s, link.Token))
	is.True(found.Resumable())
}

func TestLink_SmallRangesReadTheirBlocks(t *testing.T) {
	l, _, link := newLink(t, newFile(256<<10, 1))
	for i := range int64(10) {
		must(read(t, link, 10_000+i*20_000, 1))(t)
	}
	if read := l.origin.bytes.Load(); read > 256<<10+10*128<<10 {
		t.Errorf("%d bytes were read for 10", read)
	}
}

// TestLink_PlanOfTheVersionBefore has a small file of unknown CRC with a complete header.
func TestLink_PlanOfTheVersionBefore(t *testing.T) {
	is := is.New(t)
	l, s, link := newLink(t, newFile(100, 1), newFile(0, 2))
	digest := sha256.Sum256([]byte(link.Token))
	stored := must(l.store.FindLink(t.Context(), digest, true))(t)
	plan := strings.Replace(string(stored.Plan), `"streamed":true,`, "", 1)
	is.True(plan != string(stored.Plan))
	must(l.store.ReplacePlan(t.Context(), digest, stored.Version, []byte(plan)))(t)
	renewed, body := l.renew(l.find(s, link.Token))
	_, contents := readZip(t, body)
	is.Equal(contents["1.bin"], string(contentOf(newFile(100, 1))))
	is.Equal(l.find(s, link.Token).ETag, renewed.ETag)
	l.readAll(l.find(s, link.Token)) // the plan stays
}

// TestLink_PlanOfAnotherRelease has plans that this release cannot deliver.
func TestLink_PlanOfAnotherRelease(t *testing.T) {
	is := is.New(t)
	l, _, link := newLink(t, newFile(100, 1))
	digest := sha256.Sum256([]byte(link.Token))
	stored := must(l.store.FindLink(t.Context(), digest, true))(t)
	for i, plan := range []string{strings.Replace(string(stored.Plan), `"layout":2`, `"layout":1`, 1), `{"layout":2}`, "gob"} {
		must(l.store.ReplacePlan(t.Context(), digest, stored.Version+int64(i), []byte(plan)))(t)
		_, err := must(l.service(exports.Options{}).FindLink(t.Context(), link.Token))(t).Load(t.Context())
		is.True(errors.Is(err, exports.ErrLinkNotFound))
	}
}

func TestLink_SlowSmallFileIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l := newLinkTest(t, newFile(256<<10, 1), newFile(256<<10, 2))
		first := l.service(exports.Options{})
		want := l.readAll(l.create(first))
		is.NoErr(first.Flush(t.Context()))
		l.forgetFacts()
		l.origin.onRead = func(string, int64) { time.Sleep(300 * time.Millisecond) }
		s := l.service(exports.Options{OpenTimeout: time.Second})
		token := l.create(s).Token
		link := l.find(s, token)
		for _, offset := range []int64{0, 10, 100_000, 256 << 10, 256<<10 + 100_000, link.Size - 300} {
			is.True(bytes.Equal(must(read(t, link, offset, 200))(t), want[offset:][:200]))
			l.forgetFacts()
			link = l.find(l.service(exports.Options{OpenTimeout: time.Second}), token)
		}
	})
}

func TestCreateLink_StoresFewOfTheSourcesWithoutExport(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1))
	s := l.service(exports.Options{})
	for i := range 200 {
		l.sources = append(l.sources, fmt.Sprintf("%s%d", strings.Repeat("é", 500), i)) // not registered
	}
	put(t, s, "without a file", fileURL(1))
	l.sources = append(l.sources, "without a file")
	link := l.create(s)
	is.Equal(len(link.Skipped), 201)
	stored := must(l.store.FindLink(t.Context(), sha256.Sum256([]byte(link.Token)), true))(t)
	is.True(len(stored.Plan) < 100*1_000*12/10)
	found := l.find(l.service(exports.Options{}), link.Token)
	is.Equal(len(found.Skipped), 100)
	is.Equal(found.Skipped[7].SourceURL, l.sources[8])
	archive := l.readAll(found)
	_, contents := readZip(t, archive)
	is.True(strings.Contains(contents["manifest.json"], `"requested": 202`))
	is.True(strings.Contains(contents["manifest.json"], `"moreSkipped": 101`))

	registration := exports.Registration{SourceURL: l.sources[8], ExportedURL: fileURL(0)}
	_, _, err := s.Register(t.Context(), registration) // stays out of later plans
	is.NoErr(err)
	l.origin.set(fileURL(0), newFile(200, 2))
	l.origin.set(fileURL(1), newFile(300, 3)) // is in them
	_, renewed := l.renew(found)
	names, contents := readZip(t, renewed)
	is.Equal(len(names), 3)
	is.True(strings.Contains(contents["manifest.json"], `"requested": 202`))
	is.True(strings.Contains(contents["manifest.json"], l.sources[8]))
}

func TestLink_ComparesWithWhatOtherProcessesHaveRead(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(8<<20, 1))
	s, other := l.service(exports.Options{}), l.service(exports.Options{})
	link := l.create(s)
	must(read(t, l.find(other, link.Token), 0, 100))(t)
	is.NoErr(other.Flush(t.Context())) // writes at the same time may lose a part
	must(read(t, link, 4_000_000, 1000))(t)
	is.NoErr(s.Flush(t.Context()))
	facts := must(l.store.FindFacts(t.Context(), sha256.Sum256([]byte(fileURL(0)))))(t)
	is.Equal(facts[0].Validator, newFile(8<<20, 1).validator)
	l.lie(0, 2)
	is.True(isLost(readError(t, l.find(other, link.Token), 4_000_000, 1000)))
}

func TestLink_ComparesBothNeighbors(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(4<<20, 1))
	s := l.service(exports.Options{})
	link := single(t, s, l.sources[0])
	must(read(t, link, 2<<20, 2<<20))(t)
	l.lie(0, 2)
	is.True(isLost(readError(t, link, 0, 2<<20)))
}

// TestLink_AlternatingValidatorIsNone has an upstream of two servers that disagree.
func TestLink_AlternatingValidatorIsNone(t *testing.T) {
	alternating := newFile(2<<20, 2)
	alternating.unstable = true
	l := newLinkTest(t, newFile(2<<20, 1), alternating)
	l.origin.alternate = 2
	s := l.service(exports.Options{})
	link := l.create(s)
	for range 20 {
		if _, _, err := readCurrent(t.Context(), l.find(s, link.Token)); err == nil {
			return
		}
	}
	t.Error("20 downloads failed")
}

func TestLink_NoticesChangeOfEmptyFile(t *testing.T) {
	for _, count := range []int{1, 3} {
		for _, last := range [][]fakeFile{nil, {newFile(1000, 99)}} {
			is := is.New(t)
			l, _, link := newLink(t, append(newFiles(count, 0), last...)...)
			l.readAll(link)
			l.origin.set(fileURL(count-1), newFile(0, 7))
			is.True(isLost(readError(t, link, 0, link.Size)))
			l.origin.remove(fileURL(count - 1))
			is.True(isLost(readError(t, link, 0, link.Size)))
		}
	}
}

// TestLink_LostFileEndsReadsForCRCs has a range of the central directory, which needs the
// CRCs of files that nobody has read.
func TestLink_LostFileEndsReadsForCRCs(t *testing.T) {
	is := is.New(t)
	const count, size = 40, 1 << 20
	l, _, link := newLink(t, newFiles(count, size)...)
	l.origin.remove(fileURL(4))
	before := l.origin.bytes.Load()
	is.True(isLost(readError(t, link, link.Size-count*60, count*60)))
	is.True(l.origin.bytes.Load()-before < count*size*3/4)
}

func TestLink_SlowReaderDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		_, _, link := newLink(t, newFile(32<<20, 1))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			writePart(ctx, link, writerFunc(func(p []byte) (int, error) {
				time.Sleep(100 * time.Millisecond)
				return len(p), ctx.Err()
			}), 0, link.Size)
		}()
		time.Sleep(time.Second)
		start := time.Now()
		must(read(t, link, link.Size-100, 100))(t)
		is.True(time.Since(start) < 100*time.Millisecond)
		cancel()
		<-done
	})
}

func TestCreateLink_BoundsThePlan(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1))
	s := l.service(exports.Options{})
	create := func(n int) error {
		items := exports.BatchOf(slices.Repeat(l.sources, n)...)
		for i := range items {
			items[i].Path = strings.Repeat("é", 1000) // stored as what was asked for, and in the name
		}
		items = must(s.FindBatch(t.Context(), items))(t)
		_, err := s.CreateLink(t.Context(), exports.LinkRequest{Items: items})
		return err
	}
	is.NoErr(create(300))
	is.True(errors.Is(create(600), exports.ErrTooLarge))

	for i := range 600 { // a few of them are named
		l.sources = append(l.sources, fmt.Sprintf("%s%d", strings.Repeat("&", 8000), i))
	}
	is.True(must(s.FindLink(t.Context(), l.create(s).Token))(t).PlanSize < 300<<10)

	l.sources = l.sources[:1]
	s = l.service(exports.Options{LinkBytesPerKey: 1000})
	is.True(errors.Is(create(1), exports.ErrTooManyLinks))
}

// TestLink_UsedOftenBecomesResumable has a file that gets a validator while a client
// asks for the link every five minutes.
func TestLink_UsedOftenBecomesResumable(t *testing.T) {
	is := is.New(t)
	f := newFile(1000, 1)
	validator := f.validator
	f.validator = ""
	l := newLinkTest(t, f)
	now := time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)
	s := l.service(exports.Options{Now: func() time.Time { return now }})
	link := l.create(s)
	read := func() (resumable bool) {
		now = now.Add(5 * time.Minute)
		current, _, err := readCurrent(t.Context(), l.find(s, link.Token))
		is.NoErr(err)
		return current.Resumable()
	}
	for range 10 {
		is.True(!read())
	}
	f.validator = validator
	l.origin.set(fileURL(0), f)
	is.True(read())

	for i := range 12 { // changes each time
		l.origin.set(fileURL(0), newFile(1000, uint64(i+2)))
		is.Equal(read(), i < 7)
	}
	is.True(read()) // the same file as before
	l.origin.set(fileURL(0), newFile(1000, 100))
	is.True(!read())
	for i := range 12 { // seldom enough
		now = now.Add(10 * time.Minute)
		l.origin.set(fileURL(0), newFile(1000, uint64(i+200)))
		is.True(read())
	}
}
