package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is an Opener whose files behave as a test says.
type origin struct {
	mu    sync.Mutex
	files map[string]func(ctx context.Context) (*exports.File, error)

	open    atomic.Int64 // files open now
	most    atomic.Int64 // files ever open at a time
	perHost sync.Map     // host -> *[2]atomic.Int64, the same for each host
}

func newOrigin() *origin {
	return &origin{files: make(map[string]func(context.Context) (*exports.File, error))}
}

func (o *origin) Serves(address *url.URL) bool { return address.Hostname() != "elsewhere.example" }

func (o *origin) Check(address *url.URL) error {
	if address.Hostname() == "private.example" {
		return &exports.ForbiddenError{Reason: "the host is private"}
	}
	return nil
}

func (o *origin) Open(ctx context.Context, address *url.URL) (*exports.File, error) {
	o.mu.Lock()
	open := o.files[address.String()]
	o.mu.Unlock()
	if open == nil {
		return nil, exports.ErrFailed
	}
	counts, _ := o.perHost.LoadOrStore(address.Host, new([2]atomic.Int64))
	host := counts.(*[2]atomic.Int64)
	raise(&o.most, o.open.Add(1))
	raise(&host[1], host[0].Add(1))
	closed := func() { o.open.Add(-1); host[0].Add(-1) }
	file, err := open(ctx)
	if err != nil {
		closed()
		return nil, err
	}
	file.Body = &closeNoter{ReadCloser: file.Body, note: closed}
	return file, nil
}

func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

type closeNoter struct {
	io.ReadCloser
	once sync.Once
	note func()
}

func (c *closeNoter) Close() error {
	c.once.Do(c.note)
	return c.ReadCloser.Close()
}

// has makes an address give a file with this content, in pieces.
func (o *origin) has(address string, content []byte) {
	o.does(address, func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(iotest.HalfReader(bytes.NewReader(content))), Size: -1}, nil
	})
}

// does makes an address do something else.
func (o *origin) does(address string, open func(context.Context) (*exports.File, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files[address] = open
}

func (o *origin) fails(address string, err error) {
	o.does(address, func(context.Context) (*exports.File, error) { return nil, err })
}

// service returns a Service over memory that fetches from origin.
func service(o *origin, options exports.Options) *exports.Service {
	options.Openers = []exports.Opener{o}
	return exports.NewService(memory.New().Exports(), &options)
}

// register registers n files named f0, f1, ... and returns their sources.
func register(t *testing.T, s *exports.Service, addresses ...string) []string {
	t.Helper()
	var sources []string
	for i, address := range addresses {
		source := fmt.Sprintf("source-%d", i)
		if _, _, err := s.Register(t.Context(), source, address, ""); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	return sources
}

// shown is what a client sees of skipped items.
func shown(list []exports.Skipped) []exports.Skipped {
	list = slices.Clone(list)
	for i := range list {
		list[i].Err = nil
	}
	return list
}

// download writes a batch and returns it with what was skipped.
func download(t *testing.T, s *exports.Service, sources []string) ([]byte, []exports.Skipped, error) {
	t.Helper()
	found, err := s.FindBatch(t.Context(), sources)
	if err != nil {
		return nil, nil, err
	}
	batch, err := s.OpenBatch(t.Context(), found)
	if err != nil {
		return nil, nil, err
	}
	defer batch.Close()
	var out bytes.Buffer
	err = batch.WriteZip(&out)
	return out.Bytes(), batch.Skipped(), err
}

// entries reads an archive whole.
func entries(t *testing.T, archive []byte) (names []string, contents map[string]string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	contents = make(map[string]string)
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name)
		contents[f.Name] = string(content)
	}
	return names, contents
}

func TestRegister(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 30, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	s := service(newOrigin(), exports.Options{Now: func() time.Time { return now }})
	export, created, err := s.Register(t.Context(), " \u00a0src\n", " https://x.example/a ", "  ")
	is.NoErr(err)
	is.True(created)
	at := time.Date(2026, 3, 30, 10, 0, 0, 123e6, time.UTC)
	is.Equal(export, exports.Export{ID: 1, SourceURL: "src", ExportedURL: "https://x.example/a", CreatedAt: at, UpdatedAt: at})

	now = now.Add(time.Hour)
	export, created, err = s.Register(t.Context(), "src", "http://x.example/b?q", " name ")
	is.NoErr(err)
	is.True(!created) // takes the place of the former
	is.Equal(export, exports.Export{ID: 1, SourceURL: "src", ExportedURL: "http://x.example/b?q", FileName: " name ", CreatedAt: at, UpdatedAt: at.Add(time.Hour)})
	found, err := s.Find(t.Context(), "\tsrc ")
	is.NoErr(err)
	is.Equal(found, export)

	is.NoErr(s.Remove(t.Context(), "src"))
	is.Equal(s.Remove(t.Context(), "src"), exports.ErrNotFound)
	_, err = s.Find(t.Context(), "src")
	is.Equal(err, exports.ErrNotFound)
}

func TestRegister_refuses(t *testing.T) {
	t.Parallel()
	s := service(newOrigin(), exports.Options{})
	long := strings.Repeat("ä", exports.MaxAddress)
	if _, _, err := s.Register(t.Context(), long, "https://x.example/"+long[:1000], long); err != nil {
		t.Error("the longest fields:", err)
	}
	for _, c := range []struct{ source, exported, name, field string }{
		{"", "https://x.example/", "", "sourceFileUrl"},
		{" \t\u3000", "https://x.example/", "", "sourceFileUrl"},
		{long + "x", "https://x.example/", "", "sourceFileUrl"},
		{"a\x00b", "https://x.example/", "", "sourceFileUrl"},
		{"a\xffb", "https://x.example/", "", "sourceFileUrl"},
		{"s", "", "", "exportedUrl"},
		{"s", "x.example/a", "", "exportedUrl"},
		{"s", "//x.example/a", "", "exportedUrl"},
		{"s", "/a", "", "exportedUrl"},
		{"s", "ftp://x.example/a", "", "exportedUrl"},
		{"s", "file:///etc/passwd", "", "exportedUrl"},
		{"s", "https:x.example", "", "exportedUrl"},
		{"s", "https:///a", "", "exportedUrl"},
		{"s", "https://u@x.example/", "", "exportedUrl"},
		{"s", "https://u:p@x.example/", "", "exportedUrl"},
		{"s", "https://@x.example/", "", "exportedUrl"},
		{"s", "https://x.example:port/", "", "exportedUrl"},
		{"s", "https://x.example/\x00", "", "exportedUrl"},
		{"s", "https://x.example/" + long, "", "exportedUrl"},
		{"s", "https://private.example/", "", "exportedUrl"},
		{"s", "https://elsewhere.example/", "", "exportedUrl"},
		{"s", "https://x.example/", "a\x00", "fileName"},
		{"s", "https://x.example/", long + "x", "fileName"},
	} {
		_, _, err := s.Register(t.Context(), c.source, c.exported, c.name)
		if !errors.Is(err, exports.ErrInvalid) || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("Register(%.20q, %.40q, %.20q): %v, want a complaint about %s", c.source, c.exported, c.name, err, c.field)
		}
	}
}

func TestService_RegisterShowsReasonOfForbiddenURL(t *testing.T) {
	t.Parallel()
	s := service(newOrigin(), exports.Options{})
	_, _, err := s.Register(t.Context(), "s", "https://private.example/", "")
	if err == nil || err.Error() != "exportedUrl is not an allowed URL: the host is private" {
		t.Error(err)
	}
}

func TestFindBatch_refuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := service(newOrigin(), exports.Options{MaxItems: 2})
	register(t, s, "https://x.example/a")
	for _, sources := range [][]string{nil, {"a", "b", "c"}, {"source-0", " "}} {
		_, err := s.FindBatch(t.Context(), sources)
		is.True(errors.Is(err, exports.ErrInvalid))
	}
	_, err := s.FindBatch(t.Context(), []string{"b", "b"})
	var batch *exports.BatchError
	is.True(errors.As(err, &batch) && errors.Is(err, exports.ErrNotFound))
	is.Equal(shown(batch.Skipped), []exports.Skipped{{SourceURL: "b", Reason: "not registered"}, {SourceURL: "b", Reason: "not registered"}})
}

func TestBatch_everyItemIsAFileOrSkipped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{OpenTimeout: time.Second})
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // several windows
	o.has("https://x.example/a/plan.pdf", []byte("one"))
	o.has("https://x.example/b/plan.pdf", large)
	o.has("https://x.example/empty", nil)
	o.fails("https://x.example/gone", exports.ErrFailed)
	o.does("https://x.example/slow", func(ctx context.Context) (*exports.File, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	o.does("https://x.example/cut", func(context.Context) (*exports.File, error) { // known to be torn before its entry begins
		return &exports.File{Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))), Size: 8}, nil
	})
	sources := register(t, s, "https://x.example/a/plan.pdf", "https://x.example/gone", "https://x.example/b/plan.pdf",
		"https://x.example/slow", "https://x.example/empty", "https://x.example/cut")

	archive, skipped, err := download(t, s, append([]string{"unknown", sources[0]}, append(sources, "unknown")...))
	is.NoErr(err)
	names, contents := entries(t, archive)
	is.Equal(names, []string{"plan.pdf", "plan-1.pdf", "plan-2.pdf", "empty", "manifest.json"})
	is.Equal(contents["plan.pdf"], "one")
	is.Equal(contents["plan-1.pdf"], "one")
	is.True(contents["plan-2.pdf"] == string(large))
	is.Equal(contents["empty"], "")
	want := []exports.Skipped{
		{SourceURL: "unknown", Reason: "not registered"},
		{SourceURL: "source-1", Reason: "file cannot be fetched"},
		{SourceURL: "source-3", Reason: "file takes too long"},
		{SourceURL: "source-5", Reason: "file cannot be fetched"},
		{SourceURL: "unknown", Reason: "not registered"},
	}
	is.Equal(shown(skipped), want)

	var manifest struct {
		GeneratedAt         time.Time
		Requested, Included int
		Skipped             []struct{ SourceFileURL, Reason string }
	}
	is.NoErr(json.Unmarshal([]byte(contents["manifest.json"]), &manifest))
	is.Equal(manifest.Requested, 9)
	is.Equal(manifest.Included, 4)
	is.Equal(len(manifest.Skipped), len(want))
	for i, item := range manifest.Skipped {
		is.Equal(exports.Skipped{SourceURL: item.SourceFileURL, Reason: item.Reason}, want[i])
	}
	is.Equal(o.open.Load(), int64(0)) // all files are closed
}

func TestBatch_withoutAnyFileFailsBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{})
	o.fails("https://x.example/slow", exports.ErrTimeout)
	o.fails("https://x.example/gone", exports.ErrFailed)
	sources := register(t, s, "https://x.example/slow", "https://x.example/slow", "https://x.example/gone")

	_, _, err := download(t, s, append(sources[:2:2], "unknown"))
	is.True(errors.Is(err, exports.ErrTimeout)) // all that are registered took too long
	var batch *exports.BatchError
	is.True(errors.As(err, &batch))
	is.Equal(len(batch.Skipped), 3)
	_, _, err = download(t, s, sources)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(!errors.Is(err, exports.ErrTimeout))
	is.Equal(o.open.Load(), int64(0))
}

func TestBatch_fileLostInMidEntryTearsTheArchive(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{})
	o.does("https://x.example/cut", func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))), Size: -1}, nil
	})
	o.has("https://x.example/ok", []byte("ok"))
	archive, _, err := download(t, s, register(t, s, "https://x.example/ok", "https://x.example/cut", "https://x.example/ok"))
	is.True(err != nil)
	_, err = zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.True(err != nil) // and no reader takes it for a whole one
	is.Equal(o.open.Load(), int64(0))
}

func TestBatch_opensAheadWithinItsLimits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{Ahead: 8, AheadOfHost: 3})
	var addresses []string
	for i := range 60 {
		address := fmt.Sprintf("https://host-%d.example/%d.bin", i%4, i)
		o.does(address, func(context.Context) (*exports.File, error) {
			time.Sleep(time.Millisecond)
			return &exports.File{Body: io.NopCloser(strings.NewReader(address)), Size: int64(len(address))}, nil
		})
		addresses = append(addresses, address)
	}
	archive, _, err := download(t, s, register(t, s, addresses...))
	is.NoErr(err)
	names, _ := entries(t, archive)
	is.Equal(len(names), 60)
	is.Equal(names[59], "59.bin") // in the order of the request
	is.True(o.most.Load() <= 8)   // limit in all
	is.True(o.most.Load() > 3)    // but more than one host's
	o.perHost.Range(func(host, counts any) bool {
		is.True(counts.(*[2]atomic.Int64)[1].Load() <= 3) // limit of a host
		return true
	})
}

func TestBatch_endsWithItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{})
	var addresses []string
	o.has("https://x.example/0", []byte("ok"))
	for i := range 20 {
		address := fmt.Sprintf("https://host-%d.example/", i)
		o.does(address, func(ctx context.Context) (*exports.File, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		addresses = append(addresses, address)
	}
	sources := register(t, s, append([]string{"https://x.example/0"}, addresses...)...)
	found, err := s.FindBatch(t.Context(), sources)
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	batch, err := s.OpenBatch(ctx, found)
	is.NoErr(err)
	time.AfterFunc(20*time.Millisecond, cancel)
	is.Equal(batch.WriteZip(io.Discard), context.Canceled)
	batch.Close()
	is.Equal(o.open.Load(), int64(0))
}

func TestOpen_timeLimitEndsWithTheFirstByte(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{OpenTimeout: 30 * time.Millisecond})
	o.does("https://x.example/long", func(ctx context.Context) (*exports.File, error) {
		r, w := io.Pipe()
		go func() {
			for range 5 {
				time.Sleep(20 * time.Millisecond)
				fmt.Fprint(w, "x")
			}
			w.CloseWithError(context.Cause(ctx)) // nil is io.EOF
		}()
		return &exports.File{Body: r, Size: -1}, nil
	})
	sources := register(t, s, "https://x.example/long")
	export, err := s.Find(t.Context(), sources[0])
	is.NoErr(err)
	file, err := s.Open(t.Context(), export)
	is.NoErr(err)
	content, err := io.ReadAll(file.Body)
	is.NoErr(err) // the download outlives the limit
	is.Equal(string(content), "xxxxx")
	is.NoErr(file.Close())
}

func TestBatch_sizeIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	o := newOrigin()
	s := service(o, exports.Options{})
	sized := func(address string, size int) {
		o.does(address, func(context.Context) (*exports.File, error) {
			return &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, size))), Size: int64(size), Modified: time.Unix(1e9, 0)}, nil
		})
	}
	var addresses []string
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 65535 * 20, 65535*20 + 1, 3 << 20} {
		address := fmt.Sprintf("https://x.example/%d/%%E5%%90%%8D.bin", size)
		sized(address, size)
		addresses = append(addresses, address)
	}
	o.fails("https://x.example/gone", exports.ErrFailed)
	o.has("https://x.example/unknown-but-small", []byte("x"))
	o.has("https://x.example/unknown", make([]byte, 2<<20))
	addresses = append(addresses, "https://x.example/gone", "https://x.example/unknown-but-small", "https://x.example/unknown")
	sources := register(t, s, addresses...)
	known := sources[:len(sources)-1]
	for _, c := range []struct {
		sources []string
		known   bool
	}{
		{sources[:1], true},
		{sources[3:4], true},
		{known, true},
		{append([]string{"unregistered"}, known...), true},
		{[]string{sources[8], sources[0], "unregistered", sources[0], sources[8]}, true},
		{sources, false},
		{append(known[:8:8], known[:9]...), false}, // more than are opened ahead
	} {
		found, err := s.FindBatch(t.Context(), c.sources)
		if err != nil {
			t.Fatal(err)
		}
		var batch *exports.Batch
		size := int64(-1)
		for try := 0; try == 0 || c.known && size < 0 && try < 10; try++ { // a busy machine may not have them open in time
			if batch != nil {
				batch.Close()
			}
			if batch, err = s.OpenBatch(t.Context(), found); err != nil {
				t.Fatal(err)
			}
			size = batch.Size()
		}
		var out bytes.Buffer
		if err := batch.WriteZip(&out); err != nil {
			t.Fatal(err)
		}
		batch.Close()
		if want := int64(out.Len()); c.known && size != want || !c.known && size != -1 {
			t.Errorf("%q: size is %d, written are %d, known %t", c.sources, size, want, c.known)
		}
		entries(t, out.Bytes())
	}
	if n := o.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// TestBatch_fileThatIsNotOfItsSize: what an origin says of a size is not
// believed over what it gives.
func TestBatch_fileThatIsNotOfItsSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrigin()
	s := service(o, exports.Options{})
	lies := func(address string, says, gives int) {
		o.does(address, func(context.Context) (*exports.File, error) {
			return &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, gives))), Size: int64(says)}, nil
		})
	}
	lies("https://x.example/small", 100, 50)
	lies("https://x.example/large", 3<<20, 2<<20)
	o.has("https://x.example/ok", []byte("ok"))
	sources := register(t, s, "https://x.example/ok", "https://x.example/small", "https://x.example/large")
	archive, skipped, err := download(t, s, sources[:2])
	is.NoErr(err)
	is.Equal(len(skipped), 1) // noticed before its entry
	names, _ := entries(t, archive)
	is.Equal(names, []string{"ok", "manifest.json"})
	_, _, err = download(t, s, sources)
	is.True(errors.Is(err, io.ErrUnexpectedEOF)) // noticed within it
}
