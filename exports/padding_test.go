package exports

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports/ziptest"
)

// padded writes an archive whose last entry has to bring it to a size that is
// so much more than it needs.
func padded(files []zipFile, missing uint64) ([]byte, error) {
	plain := &zipWriter{w: io.Discard}
	for _, f := range files {
		plain.plan(f.name, someTime, uint64(len(f.content)), !f.stream)
	}
	var out bytes.Buffer
	z := &zipWriter{w: &out, size: plain.total() + missing}
	for i, f := range files {
		if i == len(files)-1 {
			if err := z.fit(f.name, someTime, uint64(len(f.content)), !f.stream); err != nil {
				return nil, err
			}
		}
		var err error
		if f.stream {
			err = z.addStream(f.name, someTime, -1, bytes.NewReader(f.content))
		} else {
			err = z.addWhole(f.name, someTime, f.content)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := z.close(); err != nil {
		return nil, err
	}
	if got, want := uint64(out.Len()), z.size; got != want {
		return nil, fmt.Errorf("%d bytes were written of %d", got, want)
	}
	return out.Bytes(), nil
}

// TestZip_paddedIsReadByEveryone pads with the field alone and with empty
// blocks, behind a last entry that is whole, a stream, empty or all there is.
func TestZip_paddedIsReadByEveryone(t *testing.T) {
	t.Parallel()
	large := zipFile{"large.bin", make([]byte, 12<<20), true} // for a bound above 1 MiB
	for _, c := range []struct {
		files   []zipFile
		missing uint64
	}{
		{corpus(), minPadding},
		{corpus(), maxPadding},
		{corpus()[:1], maxPadding + 1},
		{append(corpus(), zipFile{"manifest.json", []byte("{}\n"), false}), 1 << 20},
		{[]zipFile{large, {"manifest.json", []byte("{}\n"), false}}, 3 << 20},
		{[]zipFile{large}, 3 << 20},
	} {
		archive, err := padded(c.files, c.missing)
		if err != nil {
			t.Errorf("%d files with %d bytes of padding: %v", len(c.files), c.missing, err)
			continue
		}
		ziptest.Read(t, archive, len(c.files), namesOf(c.files))
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range r.File {
			body, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if content, err := io.ReadAll(body); err != nil || !bytes.Equal(content, c.files[i].content) {
				t.Errorf("%s with %d bytes of padding: %v", f.Name, c.missing, err)
			}
		}
	}
}

// TestZip_paddingOfAnySize goes over the places where it changes its kind.
func TestZip_paddingOfAnySize(t *testing.T) {
	t.Parallel()
	for _, last := range []zipFile{
		{"whole", []byte("x"), false}, {"full", make([]byte, 1<<20), false}, {"stream", []byte("x"), true}, {"blocks", make([]byte, maxBlock*20), true},
	} {
		for _, around := range []uint64{0, maxPadding, maxPadding + maxPadding/2, 1 << 20} {
			for missing := max(around, 9) - 9; missing < around+9; missing++ {
				_, err := padded([]zipFile{{"first", nil, false}, last}, missing)
				fits := missing == 0 || minPadding <= missing && missing <= 1<<20
				if fits != (err == nil) || err != nil && !errors.Is(err, errPromise) {
					t.Errorf("%q with %d bytes of padding: %v", last.name, missing, err)
				}
			}
		}
	}
}

func TestZip_beyondItsPromise(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	z := &zipWriter{w: &out, limit: 100_000}
	err := z.addStream("x", someTime, -1, zeros{})
	is.True(errors.Is(err, errPromise))
	is.True(out.Len() <= 100_000)
}

// TestZip_paddingThatNeedsZip64: the empty blocks make the last entry one of
// more than 4 GiB.
func TestZip_paddingThatNeedsZip64(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 5 GiB")
	}
	t.Parallel()
	is := is.New(t)
	const size, missing = 4_200_000_000, 1_000_000_000
	plain := &zipWriter{}
	plain.plan("large.bin", someTime, size, false)
	tail := &tailWriter{}
	z := &zipWriter{w: tail, size: plain.total() + missing}
	is.NoErr(z.fit("large.bin", someTime, size, false))
	is.NoErr(z.addStream("large.bin", someTime, size, zeros{}))
	is.NoErr(z.close())
	is.Equal(uint64(tail.size), z.size)
	r, err := zip.NewReader(tail, tail.size)
	is.NoErr(err)
	is.Equal(r.File[0].UncompressedSize64, uint64(size))
	is.True(r.File[0].CompressedSize64 > 1<<32)
}

// TestSkip_longestReason: the room that is kept for the words about a file
// that has to be left out is enough for each of them.
func TestSkip_longestReason(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ErrFailed, ErrForbidden, ErrTimeout, ErrNotFound, io.EOF} {
		if got, most := skip("s", err).Reason, skip("s", ErrFailed).Reason; len(got) > len(most) {
			t.Errorf("%q is longer than %q", got, most)
		}
	}
}
