package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"testing"

	"example.com/canvasback/exports"
)

// contentOpener opens files whose content follows from their URL.
type contentOpener struct{}

var _ exports.RangeOpener = contentOpener{}

func (contentOpener) Serves(*url.URL) bool   { return true }
func (contentOpener) Check(u *url.URL) error { return nil }

func (o contentOpener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	file, err := o.Stat(ctx, u)
	file.Body = io.NopCloser(bytes.NewReader(contentAt(u)))
	return file, err
}

func (contentOpener) Stat(_ context.Context, u *url.URL) (*exports.File, error) {
	return &exports.File{Size: int64(len(contentAt(u))), Validator: "only"}, nil
}

func (contentOpener) OpenRange(_ context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(contentAt(u)[r.Offset : r.Offset+r.Length])), nil
}

func contentAt(u *url.URL) []byte {
	return bytes.Repeat([]byte(u.Path+" "), 1<<7*len(u.Path)*len(u.Path))
}

// sectionBuffer is an [exports.LinkWriter] of one section.
type sectionBuffer struct {
	bytes.Buffer
	section exports.Section
}

func (b *sectionBuffer) Select(*exports.Link) ([]exports.Section, error) {
	return []exports.Section{b.section}, nil
}
func (b *sectionBuffer) Begin(*exports.Link, int) error { return nil }
func (b *sectionBuffer) Flush() error                   { return nil }

// concurrentDownloads delivers ranges of a link through two services, as two
// processes do, and compares them with the complete zip.
func concurrentDownloads(t *testing.T, handles []Storage) {
	linkStore(t, handles[0])
	var services []*exports.Service
	for _, s := range handles {
		service, err := exports.NewService(s.Exports(), &exports.Options{Openers: []exports.Opener{contentOpener{}}})
		must(t, err)
		t.Cleanup(func() { must(t, service.Flush(context.Background())) })
		services = append(services, service)
	}
	var sources []string
	for i := range 8 {
		source := fmt.Sprint("source ", i)
		_, _, err := services[0].Register(t.Context(), exports.Registration{
			SourceURL: source, ExportedURL: fmt.Sprintf("https://files.example/%0*d", 1+3*i, i),
		})
		must(t, err)
		sources = append(sources, source)
	}
	items, err := services[0].FindBatch(t.Context(), exports.BatchOf(append(sources, "missing")...))
	must(t, err)
	link, err := services[0].CreateLink(t.Context(), exports.LinkRequest{Items: items, Owner: exports.Digest{1}})
	must(t, err)
	read := func(service *exports.Service, offset, length int64) ([]byte, error) {
		found, err := service.FindLink(t.Context(), link.Token)
		if err != nil {
			return nil, err
		}
		loaded, err := found.Load(t.Context())
		if err != nil {
			return nil, err
		}
		if loaded.ETag != link.ETag {
			return nil, fmt.Errorf("ETag is %s, want %s", loaded.ETag, link.ETag)
		}
		var out sectionBuffer
		out.section = exports.Section{Offset: offset, Length: length}
		_, err = loaded.Serve(t.Context(), &out)
		return out.Bytes(), err
	}
	want, err := read(services[1], 0, link.Size)
	must(t, err)
	for _, err := range parallel(handles, 8, func(_ Storage, i int) error {
		for range iterations(10, 1000) {
			offset := rand.Int64N(link.Size)
			length := rand.Int64N(link.Size - offset + 1)
			got, err := read(services[i%2], offset, length)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want[offset:offset+length]) {
				return fmt.Errorf("%d bytes from %d differ", length, offset)
			}
		}
		return nil
	}) {
		must(t, err)
	}
}
