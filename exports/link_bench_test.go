package exports_test

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// memoryOrigin is a RangeOpener of files with one content.
type memoryOrigin struct{ content []byte }

func (memoryOrigin) Serves(*url.URL) bool { return true }
func (memoryOrigin) Check(*url.URL) error { return nil }

func (o memoryOrigin) Open(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Body: o.body(0, len(o.content)), Size: int64(len(o.content)), Validator: "only"}, nil
}

func (o memoryOrigin) Stat(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Size: int64(len(o.content)), Validator: "only"}, nil
}

func (o memoryOrigin) OpenRange(_ context.Context, _ *url.URL, r exports.Part) (io.ReadCloser, error) {
	return o.body(int(r.Offset), int(r.Offset+r.Length)), nil
}

func (o memoryOrigin) body(from, to int) io.ReadCloser {
	return io.NopCloser(struct{ io.Reader }{bytes.NewReader(o.content[from:to])})
}

// chunkWriter discards content in pieces as large as those of a response.
type chunkWriter struct{ buffer []byte }

func (chunkWriter) Write(p []byte) (int, error) { return len(p), nil }

func (w chunkWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, w.buffer)
}

// chunkLinkWriter is a LinkWriter to a chunkWriter.
type chunkLinkWriter struct {
	*sectionWriter
	chunkWriter
}

func (w chunkLinkWriter) Write(p []byte) (int, error) { return w.chunkWriter.Write(p) }

// BenchmarkDownload compares a complete download by a link with one by a batch,
// with and without facts.
func BenchmarkDownload(b *testing.B) {
	const files, size = 4, 64 << 20
	for _, known := range []bool{false, true} {
		for _, by := range []string{"batch", "link"} {
			b.Run(by+map[bool]string{true: ", facts known", false: ", nothing known"}[known], func(b *testing.B) {
				origin := memoryOrigin{make([]byte, size)}
				b.SetBytes(files * size)
				var s *exports.Service
				var items []exports.BatchItem
				prepare := func() {
					s = must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{origin}, LinkServed: 1 << 30}))
					var sources []string
					for _, name := range []string{"a", "b", "c", "d"} {
						if _, _, err := s.Register(b.Context(), exports.Registration{
							SourceURL: name, ExportedURL: "https://files.example/" + name,
						}); err != nil {
							b.Fatal(err)
						}
						sources = append(sources, name)
					}
					var err error
					if items, err = s.FindBatch(b.Context(), sources); err != nil {
						b.Fatal(err)
					}
				}
				out := chunkWriter{make([]byte, 63<<10)}
				run := func() {
					var err error
					if by == "batch" {
						batch, openErr := s.OpenBatch(b.Context(), items)
						if openErr != nil {
							b.Fatal(openErr)
						}
						err = batch.WriteZip(out, nil)
						batch.Close()
					} else {
						link, createErr := s.CreateLink(b.Context(), items, exports.Digest{})
						if createErr != nil {
							b.Fatal(createErr)
						}
						_, err = link.Serve(b.Context(), chunkLinkWriter{&sectionWriter{choose: wholeLink}, out})
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				prepare()
				if known {
					run()
				}
				for b.Loop() {
					if !known {
						prepare()
					}
					run()
				}
			})
		}
	}
}
