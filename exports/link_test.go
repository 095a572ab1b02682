package exports_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// linkStore is a Store with its optional interface.
type linkStore interface {
	exports.Store
	exports.LinkStore
}

// linkTest is an origin with registered files, and a store.
type linkTest struct {
	t       *testing.T
	origin  *fakeOrigin
	store   linkStore
	sources []string
}

func newLinkTest(t *testing.T, files ...fakeFile) *linkTest {
	l := &linkTest{t: t, origin: newFakeOrigin(), store: memory.New().Exports().(linkStore)}
	s := l.service(exports.Options{})
	var urls []string
	for i, f := range files {
		urls = append(urls, fileURL(i))
		l.origin.set(fileURL(i), f)
	}
	l.sources = register(t, s, urls...)
	return l
}

func fileURL(i int) string { return fmt.Sprintf("https://%d.example/%d", i%3, i) }

// service returns a Service as of a new process.
func (l *linkTest) service(options exports.Options) *exports.Service {
	options.Openers = []exports.Opener{l.origin}
	s := must(exports.NewService(l.store, &options))(l.t)
	l.t.Cleanup(func() {
		if err := s.Flush(context.Background()); err != nil {
			l.t.Error(err)
		}
		if open := l.origin.open.Load(); open != 0 {
			l.t.Errorf("%d files are open", open)
		}
	})
	return s
}

func (l *linkTest) create(s *exports.Service) *exports.Link {
	items := must(s.FindBatch(l.t.Context(), exports.BatchOf(l.sources...)))(l.t)
	return must(s.CreateLink(l.t.Context(), exports.LinkRequest{Items: items, Owner: exports.Digest{1}}))(l.t)
}

func newLink(t *testing.T, files ...fakeFile) (*linkTest, *exports.Service, *exports.Link) {
	t.Helper()
	l := newLinkTest(t, files...)
	s := l.service(exports.Options{})
	return l, s, l.create(s)
}

// single returns a link to the file of a source.
func single(t *testing.T, s *exports.Service, source string) *exports.Link {
	t.Helper()
	item := must(s.FindItem(t.Context(), exports.BatchItem{SourceURL: source}))(t)
	return must(s.CreateLink(t.Context(), exports.LinkRequest{Items: []exports.BatchItem{item}, Single: true}))(t)
}

func (l *linkTest) find(s *exports.Service, token string) *exports.Link {
	return must(must(s.FindLink(l.t.Context(), token))(l.t).Load(l.t.Context()))(l.t)
}

func (l *linkTest) readAll(link *exports.Link) []byte {
	return must(read(l.t, link, 0, link.Size))(l.t)
}

// renew delivers a link with another plan than before. It returns the link with that
// plan, and its content.
func (l *linkTest) renew(link *exports.Link) (*exports.Link, []byte) {
	l.t.Helper()
	renewed, body, err := readCurrent(l.t.Context(), link)
	if err != nil {
		l.t.Fatal(err)
	}
	if link.Resumable() && renewed.ETag == link.ETag {
		l.t.Fatal("the link has the same plan as before")
	}
	return renewed, body
}

// sizes cover both forms of entries and several blocks of checksums.
var linkSizes = []int64{0, 1, 100, 256 << 10, 256<<10 + 1, 3 << 20, 60 << 10, 700_000, 2_345_678, 5}

func linkFiles() (files []fakeFile) {
	for i, size := range linkSizes {
		files = append(files, newFile(size, uint64(i)))
	}
	return files
}

func TestLink_SkipsInvalidTextOnAnyProcess(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1))
	l.sources = append(l.sources, "not UTF-8: \xff\xfe")
	link := l.create(l.service(exports.Options{}))
	is.Equal(l.readAll(l.find(l.service(exports.Options{}), link.Token)), l.readAll(link))
}

func TestLink_DeliversAnyRangeOnAnyProcess(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, append(linkFiles(), newFile(9, 99))...)
	l.origin.remove(fileURL(len(linkSizes)))
	first := l.service(exports.Options{})
	link := l.create(first)
	is.True(link.Resumable())
	is.Equal(len(link.Skipped), 1)
	is.Equal(len(link.NotResumable), 0)
	want := l.readAll(link)
	is.Equal(int64(len(want)), link.Size)
	names, contents := readZip(t, want)
	is.Equal(len(names), len(linkSizes)+1)
	is.Equal(names[len(linkSizes)], "manifest.json")
	checkTimes(t, want)
	for i, f := range linkFiles() {
		is.True(contents[names[i]] == string(contentOf(f)))
	}

	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		s := first
		switch r.IntN(5) {
		case 0:
			s = l.service(exports.Options{})
		case 1: // nothing remembered
			l.forgetFacts()
			s = l.service(exports.Options{})
		}
		found := l.find(s, link.Token)
		is.Equal(found.ETag, link.ETag)
		is.Equal(found.Skipped, withoutErrors(link.Skipped))
		offset := r.Int64N(link.Size + 1)
		length := r.Int64N(link.Size - offset + 1)
		if r.IntN(2) == 0 {
			length = min(length, 2000)
		}
		is.True(bytes.Equal(must(read(t, found, offset, length))(t), want[offset:offset+length]))
	}
}

func TestLink_SingleFilePassesRangesThrough(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(3_000_000, 7))
	s := l.service(exports.Options{})
	link := single(t, s, l.sources[0])
	is.Equal(link.Size, int64(3_000_000))
	is.Equal(link.FileName, "7.bin")
	is.Equal(link.Type, "application/pdf")
	is.True(link.Modified.IsZero()) // unknown
	want := contentOf(newFile(3_000_000, 7))
	is.True(bytes.Equal(l.readAll(link), want))
	got := must(read(t, l.find(l.service(exports.Options{}), link.Token), 1_234_567, 99))(t)
	is.True(bytes.Equal(got, want[1_234_567:][:99]))
}

func TestLink_ChangedFileGetsNewPlan(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(2<<20, 1), newFile(2<<20, 2))
	s, other := l.service(exports.Options{}), l.service(exports.Options{})
	link := l.create(s)

	l.origin.set(fileURL(1), newFile(3<<20, 3))
	is.Equal(readError(t, link, 3<<20, 100), errRenewed) // begins in the changed file
	token, link := link.Token, l.find(s, link.Token)

	l.origin.set(fileURL(1), newFile(4<<20, 3))
	is.True(errors.Is(readError(t, link, 0, link.Size), exports.ErrChanged)) // begins before it
	renewed, body := l.renew(l.find(other, token))
	_, contents := readZip(t, body)
	is.True(contents["3.bin"] == string(contentOf(newFile(4<<20, 3))))
	is.Equal(l.find(s, token).ETag, renewed.ETag)

	l.origin.remove(fileURL(1))
	is.True(errors.Is(readError(t, renewed, 0, renewed.Size), exports.ErrGone))
	_, body = l.renew(l.find(s, token))
	names, _ := readZip(t, body)
	is.Equal(names, []string{"1.bin", "manifest.json"})
}

// TestLink_IsTheSameAfterAFailover loses a version of a link, which recurs with another plan.
func TestLink_IsTheSameAfterAFailover(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l := newLinkTest(t, newFile(1000, 1))
		primary, standby := l.store, memory.New().Exports().(linkStore)
		current := &struct{ linkStore }{primary}
		l.store = current
		a, b := l.service(exports.Options{}), l.service(exports.Options{})
		token := l.create(a).Token
		replicated := must(primary.FindLink(t.Context(), sha256.Sum256([]byte(token)), true))(t)
		limit := exports.LinkLimit{Links: 1, Bytes: 1 << 20}
		is.NoErr(standby.InsertLink(t.Context(), replicated, exports.LinkLimits{PerOwner: limit, PerClient: limit, Served: 1}))
		_, _, err := standby.Put(t.Context(), must(primary.Get(t.Context(), 1))(t), exports.PutRule{})
		is.NoErr(err)

		l.origin.set(fileURL(0), newFile(2000, 2))
		lost, _ := l.renew(l.find(a, token)) // the second version, which is not replicated
		synctest.Wait()
		current.linkStore = standby
		time.Sleep(time.Second)
		l.renew(l.find(b, token))
		time.Sleep(time.Minute)
		is.Equal(l.find(a, token).ETag, l.find(b, token).ETag)
		is.True(l.find(a, token).ETag != lost.ETag)
	})
}

func TestLink_FailingUpstreamKeepsPlan(t *testing.T) {
	is := is.New(t)
	l, s, link := newLink(t, newFile(2<<20, 1), newFile(2<<20, 2))
	broken := newFile(2<<20, 2)
	broken.err = exports.ErrTimeout
	l.origin.set(fileURL(1), broken)
	is.True(errors.Is(readError(t, link, 3<<20, 100), exports.ErrTimeout))
	is.True(errors.Is(readError(t, link, 0, link.Size), exports.ErrTimeout))
	is.Equal(l.find(s, link.Token).ETag, link.ETag)
	l.origin.set(fileURL(0), newFile(1<<20, 3)) // the other file is still out of reach
	is.True(errors.Is(readError(t, link, 0, 100), exports.ErrTimeout))
	is.Equal(l.find(s, link.Token).ETag, link.ETag)
	l.origin.set(fileURL(0), newFile(2<<20, 1))
	l.origin.set(fileURL(1), newFile(2<<20, 2))
	l.readAll(l.find(s, link.Token))
}

func TestLink_ValidatorThatStoresCannotHoldIsNone(t *testing.T) {
	for _, validator := range []string{"a\x00b", "\xff", strings.Repeat("a", 1025)} {
		is := is.New(t)
		file := newFile(100, 1)
		file.validator = validator
		l, _, link := newLink(t, file)
		is.True(!link.Resumable())
		is.Equal(len(link.NotResumable), 1)
		_, body := l.renew(link)
		readZip(t, body)
	}
}

func TestLink_WithoutValidatorIsNotResumable(t *testing.T) {
	is := is.New(t)
	weak := newFile(100, 1)
	weak.validator = ""
	l := newLinkTest(t, weak, newFile(2<<20, 2))
	clock := time.Now()
	s := l.service(exports.Options{Now: func() time.Time { return clock }})
	link := l.create(s)
	is.True(!link.Resumable())
	is.Equal(link.NotResumable, []exports.Skipped{{SourceURL: l.sources[0], Reason: "the file has no strong validator"}})
	is.Equal(link.ETag, "")
	is.Equal(link.Size, int64(-1))
	delivered, body := l.renew(link)
	is.Equal(delivered.Size, int64(len(body))) // of files that are open
	names, _ := readZip(t, body)
	is.Equal(names, []string{"1.bin", "2.bin"})
	l.origin.set(fileURL(0), newFile(100, 1))
	delivered, _ = l.renew(l.find(s, link.Token)) // a plan of now
	is.True(!delivered.Resumable())
	clock = clock.Add(time.Hour)
	delivered, _ = l.renew(l.find(s, link.Token))
	is.True(delivered.Resumable())
}

// TestLink_RenewalCountsAsARequest ends requests for old links. Their plans are made
// nevertheless, before the requests end.
func TestLink_RenewalCountsAsARequest(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l, s, link := newLink(t, fakeFile{})
		l.origin.set(fileURL(0), newFile(100, 1))
		l.origin.delay = 10 * time.Second
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := readCurrent(ctx, link)
		is.True(err != nil)
		is.True(l.find(s, link.Token).Resumable())
	})
}

func TestLink_BeginsSectionsWithoutBytes(t *testing.T) {
	for _, validator := range []string{`"1"`, ""} {
		is := is.New(t)
		l := newLinkTest(t, fakeFile{validator: validator})
		s := l.service(exports.Options{})
		link := single(t, s, l.sources[0])
		delivered, body, err := readCurrent(t.Context(), link)
		is.NoErr(err)
		is.Equal(len(body), 0)
		is.Equal(delivered.ETag != "", validator != "")
	}
}

// TestLink_GrowingFileIsCutOff has a file that is longer than it was when it was opened, as
// one of package files to which a program appends.
func TestLink_GrowingFileIsCutOff(t *testing.T) {
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	register(t, s, "https://x.example/a")
	upstream.serveFile("https://x.example/a", make([]byte, 7000), exports.File{Size: 7000})
	link := single(t, s, "source-0")
	upstream.serveFile("https://x.example/a", make([]byte, 9000), exports.File{Size: 8000, Type: "text/plain"})
	delivered, content, err := readCurrent(t.Context(), link)
	is.NoErr(err)
	is.Equal(upstream.open.Load(), int64(0))
	is.Equal(delivered.Type, "text/plain")
	is.Equal(delivered.Size, int64(8000))
	is.Equal(len(content), 8000)
}

func TestLink_ValidatorWithoutRangesIsNone(t *testing.T) {
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	register(t, s, "https://x.example/a")
	upstream.serveFile("https://x.example/a", make([]byte, 100), exports.File{Size: 100, Validator: "1"})
	is.True(!single(t, s, "source-0").Resumable())
}

func TestLink_TruncatedFileIsAnError(t *testing.T) {
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	register(t, s, "https://x.example/a")
	upstream.serveSized("https://x.example/a", make([]byte, 1000), 20_000)
	link := single(t, s, "source-0")
	_, body, err := readCurrent(t.Context(), link)
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.Equal(len(body), 0) // is noticed before the first byte
	upstream.serveSized("https://x.example/a", make([]byte, 10_000), 20_000)
	_, body, err = readCurrent(t.Context(), link)
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.Equal(len(body), 10_000)
	is.Equal(discard(t, link, &cutWriter{5000}, 0, 20_000), errCut)

	upstream.serveSized("https://x.example/a", make([]byte, 2<<20), 3<<20)
	items := must(s.FindBatch(t.Context(), exports.BatchOf("source-0")))(t)
	_, _, err = readCurrent(t.Context(), must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items}))(t))
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
}

// deafWriter selects nothing, or its Begin fails.
type deafWriter struct {
	*sectionWriter
	sections []exports.Section
}

func (w deafWriter) Select(*exports.Link) ([]exports.Section, error) { return w.sections, nil }

func (deafWriter) Begin(*exports.Link, int) error { return errCut }

func TestLink_WriterEndsTheResponse(t *testing.T) {
	is := is.New(t)
	l, _, link := newLink(t, newFile(3<<20, 1))
	is.Equal(len(must(link.Serve(t.Context(), deafWriter{}))(t)), 0)
	_, err := link.Serve(t.Context(), deafWriter{&sectionWriter{out: io.Discard}, []exports.Section{{Length: link.Size}}})
	is.Equal(err, errCut)
	is.True(l.origin.bytes.Load() < 2<<20)
}

// failingStore fails the calls of one method.
type failingStore struct {
	linkStore
	method *string
}

func (s failingStore) fail(method string) error {
	if *s.method == method {
		return errors.New("disk full")
	}
	return nil
}

func (s failingStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	found, err := s.linkStore.Find(ctx, tenant, sources...)
	return found, cmp.Or(s.fail("Find"), err)
}

func (s failingStore) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	found, err := s.linkStore.FindLink(ctx, digest, withPlan)
	return found, cmp.Or(s.fail(map[bool]string{true: "Load", false: "FindLink"}[withPlan]), err)
}

func (s failingStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	if err := s.fail("ReplacePlan"); err != nil {
		return exports.StoredLink{}, err
	}
	return s.linkStore.ReplacePlan(ctx, digest, version, plan)
}

func TestLink_UnavailableStore(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1), fakeFile{size: 100})
	method := ""
	l.store = failingStore{l.store, &method}
	s := l.service(exports.Options{})
	private := must(exports.NewService(l.store, &exports.Options{Openers: []exports.Opener{privateOrigin{l.origin}}}))(t)
	item := must(s.FindItem(t.Context(), exports.BatchItem{SourceURL: l.sources[0]}))(t)
	shared := func(s *exports.Service) (string, error) {
		link, err := s.ShareLink(t.Context(), item, exports.Digest{}, "client")
		if err != nil {
			return "", err
		}
		return link.Token, nil
	}
	token := must(shared(private))(t)
	changed, weak := single(t, s, l.sources[0]), single(t, s, l.sources[1])
	l.origin.set(fileURL(0), newFile(200, 2))
	serve := func(link *exports.Link) error {
		_, _, err := readCurrent(t.Context(), link)
		return err
	}
	for _, c := range []struct {
		method string
		call   func() error
	}{
		{"Find", func() error { return serve(changed) }},
		{"Find", func() error { return serve(weak) }},
		{"Find", func() error { _, err := s.FindItem(t.Context(), item); return err }},
		{"Find", func() error { _, err := s.FindBatch(t.Context(), []exports.BatchItem{item}); return err }},
		{"ReplacePlan", func() error { return serve(changed) }},
		{"FindLink", func() error { _, err := s.FindLink(t.Context(), token); return err }},
		{"FindLink", func() error { _, err := shared(private); return err }},
		{"Load", func() error {
			_, err := must(l.service(exports.Options{}).FindLink(t.Context(), token))(t).Load(t.Context())
			return err
		}},
	} {
		method = c.method
		if err := c.call(); !errors.Is(err, exports.ErrUnavailable) {
			t.Errorf("%s: %v", method, err)
		}
	}
	method = ""
	is.NoErr(serve(changed))
	is.NoErr(s.Flush(t.Context()))
}

func TestLink_SkipsWhatCannotBeOpened(t *testing.T) {
	is := is.New(t)
	weak, gone := newFile(100, 1), newFile(100, 2)
	weak.validator = ""
	l, _, link := newLink(t, weak, gone)
	l.origin.remove(fileURL(1))
	skipped := must(link.Serve(t.Context(), &sectionWriter{out: io.Discard, choose: wholeLink}))(t)
	is.Equal(len(skipped), 1)
	is.True(errors.Is(skipped[0].Err, exports.ErrGone))
	l.origin.remove(fileURL(0))
	_, err := link.Serve(t.Context(), &sectionWriter{out: io.Discard, choose: wholeLink})
	is.True(errors.Is(err, exports.ErrFailed))
}

// TestLink_DeadlineIsATimeout has contexts with a deadline, as a middleware sets one.
func TestLink_DeadlineIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, link := newLink(t, newFile(3<<20, 1))
		items := must(s.FindBatch(t.Context(), exports.BatchOf(l.sources...)))(t)
		for name, call := range map[string]func(context.Context) error{
			"create": func(ctx context.Context) error {
				l.origin.delay = time.Second
				_, err := s.CreateLink(ctx, exports.LinkRequest{Items: items})
				return err
			},
			"share": func(ctx context.Context) error {
				l.origin.delay = 400 * time.Millisecond // of two responses
				_, err := s.ShareLink(ctx, items[0], exports.Digest{1}, "client")
				time.Sleep(time.Second) // until the link is made
				synctest.Wait()
				return err
			},
			"read for the CRC": func(ctx context.Context) error {
				l.origin.delay, l.origin.onRead = 0, func(string, int64) { time.Sleep(time.Second) }
				return writePart(ctx, link, io.Discard, link.Size-70, 70)
			},
			"read": func(ctx context.Context) error {
				l.origin.delay, l.origin.onRead = 0, func(_ string, offset int64) {
					if offset > 2<<20 { // when the file is no longer prefetched
						time.Sleep(time.Second)
					}
				}
				return writePart(ctx, link, io.Discard, 0, link.Size)
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			if err := call(ctx); !errors.Is(err, exports.ErrTimeout) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}

func TestLink_IsBounded(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(1000, 1))
	s := l.service(exports.Options{LinkRequests: 2, LinkServed: 3})
	link := l.create(s)
	half := (link.Size + 1) / 2
	limited := new(exports.LinkLimitError)
	begun, goOn := make(chan bool), make(chan bool)
	var group sync.WaitGroup
	for _, length := range []int64{link.Size, half} {
		is.True(discard(t, link, &cutWriter{}, 0, 10) != nil) // ends before the others
		group.Go(func() {
			if err := discard(t, link, writerFunc(func(p []byte) (int, error) {
				begun <- true
				<-goOn
				return len(p), nil
			}), 0, length); err != nil {
				t.Error(err)
			}
		})
		<-begun
	}
	is.True(errors.As(readError(t, link, 0, 10), &limited))
	is.Equal(limited.RetryAfter, time.Second)
	go func() { // further writes
		for range begun {
		}
	}()
	close(goOn)
	group.Wait()
	close(begun)
	for range 3 {
		is.NoErr(s.Flush(t.Context()))
		must(read(t, l.find(s, link.Token), 0, half))(t)
	}
	is.NoErr(s.Flush(t.Context()))
	is.True(errors.As(readError(t, l.find(l.service(exports.Options{LinkServed: 3}), link.Token), 0, 1), &limited))
	is.True(limited.RetryAfter > time.Hour)
	l.create(l.service(exports.Options{LinkServed: 3, LinksPerKey: 1})) // takes its place
}

// fullStore is a store that cannot write what links have served while full is set. Each
// second call panics.
type fullStore struct {
	linkStore
	full  *atomic.Bool
	calls *atomic.Int64
}

func (s fullStore) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	if s.full.Load() {
		if s.calls.Add(1)%2 == 0 {
			panic("a bug in the store")
		}
		return errors.New("disk full")
	}
	return s.linkStore.AddServed(ctx, digest, amount)
}

func TestLink_IsBoundedOnAFullDisk(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(1000, 1))
	store := fullStore{l.store, new(atomic.Bool), new(atomic.Int64)}
	l.store = store
	link := l.create(l.service(exports.Options{LinkServed: 3}))
	half := (link.Size + 1) / 2
	readHalf := func(s *exports.Service, full bool) error {
		store.full.Store(full)
		err := readError(t, l.find(s, link.Token), 0, half)
		is.NoErr(s.Flush(t.Context()))
		return err
	}
	s := l.service(exports.Options{LinkServed: 3})
	for _, full := range []bool{true, true, true, true, false, true} {
		is.NoErr(readHalf(s, full))
	}
	limited := new(exports.LinkLimitError)
	is.True(errors.As(readHalf(s, true), &limited))
	is.True(errors.As(readHalf(s, false), &limited)) // saves the rest
	is.True(errors.As(readHalf(l.service(exports.Options{LinkServed: 3}), true), &limited))
}

// slowServed is a store whose responses to AddServed arrive late.
type slowServed struct {
	linkStore
	added, goOn chan bool
}

func (s slowServed) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	err := s.linkStore.AddServed(ctx, digest, amount)
	s.added <- true
	<-s.goOn
	return err
}

// What is being written counts twice for the moment. A client that resumes then gets the rest
// soon.
func TestLink_IsResumedDuringAWriteOfItsUsage(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(1000, 1))
	store := slowServed{l.store, make(chan bool, 2), make(chan bool)}
	l.store = store
	s := l.service(exports.Options{LinkServed: 1})
	defer close(store.goOn) // also if the test fails
	link := l.create(s)
	most := link.Size * 3 / 5
	must(read(t, link, 0, most))(t)
	<-store.added
	_, err := read(t, l.find(s, link.Token), most, link.Size-most)
	limited := new(exports.LinkLimitError)
	is.True(errors.As(err, &limited))
	is.Equal(limited.RetryAfter, time.Second)
	store.goOn <- true
	is.NoErr(s.Flush(t.Context()))
	must(read(t, l.find(s, link.Token), most, link.Size-most))(t)
}

// TestLink_UsageIsAddedOnce ends a response while the usage of another is being written.
func TestLink_UsageIsAddedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		l := newLinkTest(t, newFile(1000, 1))
		store := slowServed{l.store, make(chan bool, 3), make(chan bool)}
		l.store = store
		s := l.service(exports.Options{})
		link := l.create(s)
		is.True(discard(t, link, &cutWriter{}, 0, link.Size) != nil) // sends nothing
		for range 2 {
			l.readAll(link)
			synctest.Wait()
		}
		close(store.goOn)
		is.NoErr(s.Flush(t.Context()))
		stored := must(l.store.FindLink(t.Context(), sha256.Sum256([]byte(link.Token)), false))(t)
		is.Equal(stored.Served, int64(2_000_000))
		is.True(discard(t, link, &cutWriter{100}, 0, link.Size) != nil) // sends a header
		is.NoErr(s.Flush(t.Context()))
		stored = must(l.store.FindLink(t.Context(), stored.Digest, false))(t)
		is.True(stored.Served > 2_000_000 && stored.Served < 2_100_000)
	})
}

// TestLink_WithoutValidatorIsBounded has a writer that selects no bytes, which stands for all.
func TestLink_WithoutValidatorIsBounded(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, fakeFile{size: 100})
	s := l.service(exports.Options{LinkServed: 2})
	for _, link := range []*exports.Link{single(t, s, l.sources[0]), l.create(s)} {
		serve := func() error {
			_, err := l.find(s, link.Token).Serve(t.Context(), &sectionWriter{out: io.Discard, choose: func(*exports.Link) (exports.Section, error) {
				return exports.Section{}, nil
			}})
			is.NoErr(s.Flush(t.Context()))
			return err
		}
		l.origin.remove(fileURL(0))
		for range 3 {
			is.True(errors.Is(serve(), exports.ErrGone)) // delivers nothing
		}
		l.origin.set(fileURL(0), fakeFile{size: 100})
		is.NoErr(s.Delete(t.Context(), must(s.Find(t.Context(), l.sources[0]))(t).ID))
		is.True(errors.Is(serve(), exports.ErrNotFound))
		put(t, s, l.sources[0], fileURL(0))
		is.NoErr(serve())
		is.NoErr(serve())
		limited := new(exports.LinkLimitError)
		is.True(errors.As(serve(), &limited))
	}
}

// countedPlans counts the plans that are read.
type countedPlans struct {
	linkStore
	count int
}

func (s *countedPlans) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	if withPlan {
		s.count++
	}
	return s.linkStore.FindLink(ctx, digest, withPlan)
}

func TestLink_PlansAreCached(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1))
	store := &countedPlans{linkStore: l.store}
	l.store = store
	s := l.service(exports.Options{LinkBytesPerKey: 1 << 30})
	long := strings.Repeat("x", 8000)
	put(t, s, long, fileURL(0))
	l.sources = slices.Repeat([]string{long}, 120)
	first := l.create(s)
	l.find(s, first.Token)
	is.Equal(store.count, 0)
	size := must(s.FindLink(t.Context(), first.Token))(t).PlanSize
	var last *exports.Link
	for range 16<<20/size + 1 { // too many
		last = l.create(s)
	}
	for range 2 {
		l.find(s, first.Token)
		l.find(s, last.Token)
		is.Equal(store.count, 1)
	}
}

// TestLink_OfAnEarlierConfiguration has a service whose Opener reads no ranges of the file, and
// one without any.
func TestLink_OfAnEarlierConfiguration(t *testing.T) {
	is := is.New(t)
	l, _, link := newLink(t, newFile(100, 1), newFile(0, 2))
	serve := func(openers ...exports.Opener) (*exports.Link, error) {
		s := must(exports.NewService(l.store, &exports.Options{Openers: openers}))(t)
		delivered, _, err := readCurrent(t.Context(), l.find(s, link.Token))
		return delivered, err
	}
	_, err := serve()
	is.True(errors.Is(err, exports.ErrForbidden))
	delivered, err := serve(struct{ exports.Opener }{l.origin})
	is.NoErr(err)
	is.True(!delivered.Resumable())
}

func TestLink_IncludesFileThatIsBack(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1), fakeFile{size: 100, name: "manifest.json", validator: "1"})
	l.origin.remove(fileURL(0))
	s := l.service(exports.Options{})
	is.Equal(single(t, s, l.sources[1]).FileName, "manifest.json")
	link := l.create(s)
	names, _ := readZip(t, l.readAll(link))
	is.Equal(names, []string{"manifest-1.json", "manifest.json"})
	l.origin.set(fileURL(0), newFile(100, 1))
	l.origin.set(fileURL(1), newFile(100, 2))
	_, body := l.renew(link)
	names, _ = readZip(t, body)
	is.Equal(names, []string{"1.bin", "2.bin"})
}

func TestLink_BoundsTheRenewedPlan(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(100, 1))
	l.sources = slices.Repeat(l.sources, 1000)
	s := l.service(exports.Options{})
	link := l.create(s)
	long := fileURL(0) + "?" + strings.Repeat("x", 8000)
	l.origin.set(long, newFile(100, 2))
	l.origin.remove(fileURL(0))
	put(t, s, l.sources[0], long)
	_, _, err := readCurrent(t.Context(), link)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(must(s.FindLink(t.Context(), link.Token))(t).PlanSize < 1<<20)
}

func TestService_WithoutLinkStore(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(2<<20, 1))
	is.True(l.service(exports.Options{}).HasLinks())
	link := l.create(l.service(exports.Options{}))
	s := must(exports.NewService(struct{ exports.Store }{l.store}, &exports.Options{Openers: []exports.Opener{l.origin}}))(t)
	is.True(!s.HasLinks())
	_, err := s.FindLink(t.Context(), link.Token)
	is.Equal(err, exports.ErrLinkNotFound)
	items := must(s.FindBatch(t.Context(), exports.BatchOf(l.sources...)))(t)
	_, err = s.CreateLink(t.Context(), exports.LinkRequest{Items: items})
	is.True(err != nil)
	for range 2 { // facts are in memory
		archive, _, err := downloadBatch(t, s, l.sources)
		is.NoErr(err)
		_, contents := readZip(t, archive)
		is.True(contents["1.bin"] == string(contentOf(newFile(2<<20, 1))))
	}
	is.NoErr(s.Flush(t.Context()))
}

func TestFindLink_RejectsUnknownAndExpiredTokens(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(1000, 1))
	clock := time.Now()
	s := l.service(exports.Options{Now: func() time.Time { return clock }, LinkLifetime: time.Hour})
	link := l.create(s)
	for _, token := range []string{"", "x", link.Token + "A", link.Token[1:], l.create(s).Token[:42] + "_"} {
		_, err := s.FindLink(t.Context(), token)
		is.Equal(err, exports.ErrLinkNotFound)
	}
	clock = clock.Add(time.Hour - time.Millisecond)
	l.readAll(l.find(s, link.Token)) // has the same plan
	clock = clock.Add(2 * time.Millisecond)
	_, err := s.FindLink(t.Context(), link.Token)
	is.Equal(err, exports.ErrLinkNotFound)
}

// forgetFacts replaces all facts in the store with another one.
func (l *linkTest) forgetFacts() {
	l.t.Helper()
	if err := l.store.PutFacts(l.t.Context(), []exports.Fact{{Validator: "other"}}, 1); err != nil {
		l.t.Fatal(err)
	}
}

func TestCreateLink_SingleFileNeedsNoPath(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(10, 1))
	s := l.service(exports.Options{})
	item := must(s.FindItem(t.Context(), exports.BatchItem{SourceURL: l.sources[0], Path: "a/b", FileName: "manifest.json"}))(t)
	link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: []exports.BatchItem{item}, Single: true}))(t)
	is.Equal(link.FileName, "manifest.json")
}

// TestCheck_ResumableAsTheLink checks files whose links are not.
func TestCheck_ResumableAsTheLink(t *testing.T) {
	is := is.New(t)
	long := newFile(1000, 1)
	long.validator = `"` + strings.Repeat("x", 1100) + `"`
	for i, f := range []fakeFile{newFile(1000, 1), long, newFile(1<<40+1, 1)} {
		l := newLinkTest(t, f)
		s := l.service(exports.Options{})
		is.Equal(l.create(s).Resumable(), i == 0)
		export := must(s.Find(t.Context(), l.sources[0]))(t)
		is.Equal(must(s.Check(t.Context(), export, 4096))(t).Resumable, i == 0)
	}
}
