package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test on a simulated clock.
func bubble(t *testing.T, test func(t *testing.T, is *is.I)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, is.New(t)) })
}

// fakeUpstream is an Opener whose files are set by tests.
type fakeUpstream struct {
	open atomic.Int64 // files open now

	mu    sync.Mutex
	files map[string]func(ctx context.Context) (*exports.File, error)
}

func newFakeUpstream() *fakeUpstream {
	return &fakeUpstream{files: make(map[string]func(context.Context) (*exports.File, error))}
}

func (f *fakeUpstream) Serves(u *url.URL) bool {
	return u.Hostname() != "elsewhere.example" && (u.Scheme == "http" || u.Scheme == "https")
}

func (f *fakeUpstream) Check(u *url.URL) error {
	switch u.Hostname() {
	case "private.example":
		return &exports.ForbiddenError{Reason: "the host is private"}
	case "forbidden.example":
		return exports.ErrForbidden
	}
	return nil
}

func (f *fakeUpstream) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	f.mu.Lock()
	open := f.files[u.String()]
	f.mu.Unlock()
	if open == nil {
		return nil, exports.ErrFailed
	}
	file, err := open(ctx)
	if err != nil {
		return nil, err
	}
	f.open.Add(1)
	file.Body = &countedBody{ReadCloser: file.Body, closed: sync.OnceFunc(func() { f.open.Add(-1) })}
	return file, nil
}

type countedBody struct {
	io.ReadCloser
	closed func()
}

func (b *countedBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// handle sets what opening a URL does.
func (f *fakeUpstream) handle(rawURL string, open func(context.Context) (*exports.File, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[rawURL] = open
}

// serve makes a URL a file of unknown size that arrives in pieces.
func (f *fakeUpstream) serve(rawURL string, content []byte) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(iotest.HalfReader(bytes.NewReader(content))), Size: -1}, nil
	})
}

// serveFile makes a URL a file of some content, which may have another size than it claims.
func (f *fakeUpstream) serveFile(rawURL string, content []byte, file exports.File) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) {
		opened := file
		opened.Body = io.NopCloser(bytes.NewReader(content))
		return &opened, nil
	})
}

// serveSized makes a URL a file that claims a size.
func (f *fakeUpstream) serveSized(rawURL string, content []byte, size int) {
	f.serveFile(rawURL, content, exports.File{Size: int64(size)})
}

// hang opens no file until its context ends.
func hang(ctx context.Context) (*exports.File, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *fakeUpstream) fail(rawURL string, err error) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) { return nil, err })
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// newService returns a Service in memory over an Opener.
func newService(opener exports.Opener, options exports.Options) *exports.Service {
	options.Openers = []exports.Opener{opener}
	s, err := exports.NewService(memory.New().Exports(), &options)
	if err != nil {
		panic(err)
	}
	return s
}

func newUpstream(options exports.Options) (*fakeUpstream, *exports.Service) {
	upstream := newFakeUpstream()
	return upstream, newService(upstream, options)
}

// register registers URLs for source-0, source-1, ..., and returns these.
func register(t *testing.T, s *exports.Service, urls ...string) (sources []string) {
	t.Helper()
	for i, u := range urls {
		sources = append(sources, fmt.Sprintf("source-%d", i))
		put(t, s, sources[i], u)
	}
	return sources
}

func put(t *testing.T, s *exports.Service, source, exportedURL string) {
	t.Helper()
	if _, _, err := s.Register(t.Context(), exports.Registration{SourceURL: source, ExportedURL: exportedURL}); err != nil {
		t.Fatal(err)
	}
}

func openBatch(t *testing.T, s *exports.Service, sources []string) (*exports.Batch, error) {
	t.Helper()
	items, err := s.FindBatch(t.Context(), exports.BatchOf(sources...))
	if err != nil {
		return nil, err
	}
	s.Resolve(t.Context(), items)
	return s.OpenBatch(t.Context(), items)
}

// downloadBatch returns the archive of a batch and what it skipped.
func downloadBatch(t *testing.T, s *exports.Service, sources []string) ([]byte, []exports.Skipped, error) {
	t.Helper()
	batch, err := openBatch(t, s, sources)
	if err != nil {
		return nil, nil, err
	}
	defer batch.Close()
	var out bytes.Buffer
	err = batch.WriteZip(&out, nil)
	if err == nil && batch.Size() >= 0 && batch.Size() != int64(out.Len()) {
		t.Errorf("size is %d, %d bytes were written", batch.Size(), out.Len())
	}
	return out.Bytes(), batch.Skipped(), err
}

// withoutErrors removes what clients do not see.
func withoutErrors(list []exports.Skipped) []exports.Skipped {
	list = slices.Clone(list)
	for i := range list {
		list[i].Err = nil
	}
	return list
}

// readZip returns the names of an archive in order, and its contents by name.
func readZip(t *testing.T, archive []byte) (names []string, contents map[string]string) {
	t.Helper()
	names, contents, err := tryReadZip(archive)
	if err != nil {
		t.Fatal(err)
	}
	return names, contents
}

// checkTimes checks that all entries of an archive have the time of their registration.
func checkTimes(t *testing.T, archive []byte) {
	t.Helper()
	r := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
	for _, f := range r.File {
		if age := time.Since(f.Modified); age < 0 || age > time.Hour {
			t.Errorf("entry %q was modified at %v", f.Name, f.Modified)
		}
	}
}

// tryReadZip is readZip for an archive that may be invalid.
func tryReadZip(archive []byte) (names []string, contents map[string]string, err error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, nil, err
	}
	contents = make(map[string]string)
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return nil, nil, err
		}
		if f.CRC32 != crc32.ChecksumIEEE(content) { // the reader accepts zero
			return nil, nil, zip.ErrChecksum
		}
		names = append(names, f.Name)
		contents[f.Name] = string(content)
	}
	return names, contents, nil
}

// fakeFile is a file of pseudorandom content, which follows from its seed.
type fakeFile struct {
	size      int64
	seed      uint64
	validator string
	name      string
	unstable  bool  // each response has another validator
	err       error // of each request
}

// fillContent sets p to the content of a file from offset.
// The race detector, which would watch each byte, took most of the time of the tests.
//
//go:norace
func fillContent(p []byte, seed uint64, offset int64) {
	word := func(n int64) uint64 {
		x := (uint64(n) + 1) * (seed*2 + 1) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		return x * 0xbf58476d1ce4e5b9
	}
	var first [8]byte
	if start := offset % 8; start > 0 {
		binary.LittleEndian.PutUint64(first[:], word(offset/8))
		n := copy(p, first[start:])
		p, offset = p[n:], offset+int64(n)
	}
	n := offset / 8
	for ; len(p) >= 8; n++ {
		binary.LittleEndian.PutUint64(p, word(n))
		p = p[8:]
	}
	binary.LittleEndian.PutUint64(first[:], word(n))
	copy(p, first[:])
}

func contentOf(f fakeFile) []byte {
	p := make([]byte, f.size)
	fillContent(p, f.seed, 0)
	return p
}

// fakeOrigin is a RangeOpener. It counts what is read from it.
type fakeOrigin struct {
	delay time.Duration // before each response

	mu        sync.Mutex
	files     map[string]fakeFile
	responses int // with unstable validators
	alternate int // number of unstable validators; unlimited if 0

	open   atomic.Int64 // bodies
	bytes  atomic.Int64
	onRead func(url string, offset int64) // before each Read; may be nil
}

var _ exports.RangeOpener = (*fakeOrigin)(nil)

func newFakeOrigin() *fakeOrigin { return &fakeOrigin{files: make(map[string]fakeFile)} }

func (o *fakeOrigin) set(url string, f fakeFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files[url] = f
}

func (o *fakeOrigin) remove(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.files, url)
}

func (o *fakeOrigin) get(url string) (fakeFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, ok := o.files[url]
	if !ok {
		return f, exports.ErrGone
	}
	if f.unstable {
		o.responses++
		number := o.responses
		if o.alternate > 0 {
			number %= o.alternate
		}
		f.validator = fmt.Sprint(f.validator, number)
	}
	return f, f.err
}

func (o *fakeOrigin) Serves(*url.URL) bool   { return true }
func (o *fakeOrigin) Check(u *url.URL) error { return nil }

// respond returns a file after the delay.
func (o *fakeOrigin) respond(ctx context.Context, u *url.URL) (fakeFile, error) {
	if o.delay > 0 {
		select {
		case <-time.After(o.delay):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return fakeFile{}, ctx.Err()
	}
	return o.get(u.String())
}

func (o *fakeOrigin) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	f, err := o.respond(ctx, u)
	if err != nil {
		return nil, err
	}
	file := describe(f)
	file.Body = o.body(ctx, u, f, 0, f.size)
	return file, nil
}

func (o *fakeOrigin) body(ctx context.Context, u *url.URL, f fakeFile, offset, end int64) *fakeBody {
	o.open.Add(1)
	closed := sync.OnceFunc(func() { o.open.Add(-1) })
	return &fakeBody{ctx: ctx, origin: o, url: u.String(), file: f, offset: offset, end: end, closed: closed}
}

func describe(f fakeFile) *exports.File {
	return &exports.File{Size: f.size, Type: "application/pdf", Name: f.name, Validator: f.validator}
}

func (o *fakeOrigin) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	f, err := o.respond(ctx, u)
	if err != nil {
		return nil, err
	}
	return describe(f), nil
}

func (o *fakeOrigin) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	f, err := o.respond(ctx, u)
	switch {
	case err != nil:
		return nil, err
	case f.validator != r.Validator, r.Size >= 0 && f.size != r.Size:
		return nil, exports.ErrChanged
	case r.Offset < 0 || r.Length <= 0 || r.Offset+r.Length > f.size:
		return nil, errors.New("fake: range out of bounds")
	}
	return o.body(ctx, u, f, r.Offset, r.Offset+r.Length), nil
}

// fakeBody reads the file that was opened. It fails if the origin has one with
// another validator.
type fakeBody struct {
	ctx         context.Context
	origin      *fakeOrigin
	url         string
	file        fakeFile
	offset, end int64
	closed      func()
}

func (b *fakeBody) Read(p []byte) (int, error) {
	if b.origin.onRead != nil {
		b.origin.onRead(b.url, b.offset)
	}
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	now, err := b.origin.get(b.url)
	switch {
	case err != nil:
		return 0, err
	case now.validator != b.file.validator && !now.unstable || now.size != b.file.size:
		return 0, exports.ErrChanged
	case b.offset == b.end:
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), b.end-b.offset))
	fillContent(p[:n], b.file.seed, b.offset)
	b.offset += int64(n)
	b.origin.bytes.Add(int64(n))
	return n, nil
}

func (b *fakeBody) Close() error {
	b.closed()
	return nil
}

func newFiles(count int, size int64) (files []fakeFile) {
	for i := range count {
		files = append(files, newFile(size, uint64(i)))
	}
	return files
}

// newFile returns a file with a validator.
func newFile(size int64, seed uint64) fakeFile {
	return fakeFile{size: size, seed: seed, validator: fmt.Sprintf(`"%d-%d"`, size, seed), name: fmt.Sprintf("%d.bin", seed)}
}

// errRenewed means that a link has got another plan before the first byte.
var errRenewed = errors.New("the link has another plan")

// sectionWriter is a LinkWriter that writes one section to out.
type sectionWriter struct {
	out    io.Writer
	choose func(l *exports.Link) (exports.Section, error)
	link   *exports.Link // as given to Begin; nil until then

	flushed int // times
}

func (w *sectionWriter) Select(l *exports.Link) ([]exports.Section, error) {
	s, err := w.choose(l)
	return []exports.Section{s}, err
}

func (w *sectionWriter) Begin(l *exports.Link, _ int) error {
	w.link = l
	return nil
}

func (w *sectionWriter) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *sectionWriter) Flush() error {
	if w.link == nil {
		panic("Flush before Begin")
	}
	w.flushed++
	return nil
}

func wholeLink(l *exports.Link) (exports.Section, error) { return exports.Section{Length: l.Size}, nil }

// discard writes a part of a link in its present state. The error is errRenewed if it
// has got another one before the first byte.
func discard(t *testing.T, link *exports.Link, w io.Writer, offset, length int64) error {
	t.Helper()
	return writePart(t.Context(), link, w, offset, length)
}

func writePart(ctx context.Context, link *exports.Link, w io.Writer, offset, length int64) error {
	_, err := link.Serve(ctx, &sectionWriter{out: w, choose: func(l *exports.Link) (exports.Section, error) {
		if l.ETag != link.ETag {
			return exports.Section{}, errRenewed
		}
		return exports.Section{Offset: offset, Length: length}, nil
	}})
	return err
}

// read returns a part of a link in its present state.
func read(t *testing.T, link *exports.Link, offset, length int64) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	err := discard(t, link, &out, offset, length)
	if err == nil && int64(out.Len()) != length {
		err = fmt.Errorf("%d of %d bytes", out.Len(), length)
	}
	return out.Bytes(), err
}

func readError(t *testing.T, link *exports.Link, offset, length int64) error {
	t.Helper()
	_, err := read(t, link, offset, length)
	return err
}

// readCurrent returns the complete content of a link, and the link as it was delivered.
func readCurrent(ctx context.Context, link *exports.Link) (*exports.Link, []byte, error) {
	var out bytes.Buffer
	w := &sectionWriter{out: &out, choose: wholeLink}
	_, err := link.Serve(ctx, w)
	return w.link, out.Bytes(), err
}

// isLost reports whether a file of a link had changed, before the first byte or later.
func isLost(err error) bool {
	return err == errRenewed || errors.Is(err, exports.ErrChanged) || errors.Is(err, exports.ErrGone)
}
