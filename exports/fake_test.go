package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// serveSized makes a URL a file that claims a size.
func (f *fakeUpstream) serveSized(rawURL string, content []byte, size int) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(bytes.NewReader(content)), Size: int64(size)}, nil
	})
}

func (f *fakeUpstream) fail(rawURL string, err error) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) { return nil, err })
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// newService returns a Service in memory over an upstream.
func newService(upstream *fakeUpstream, options exports.Options) *exports.Service {
	options.Openers = []exports.Opener{upstream}
	s, err := exports.NewService(memory.New().Exports(), &options)
	if err != nil {
		panic(err)
	}
	return s
}

// newUpstream returns an upstream and a Service in memory over it.
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

// put registers a URL for a source.
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
		names = append(names, f.Name)
		contents[f.Name] = string(content)
	}
	return names, contents, nil
}
