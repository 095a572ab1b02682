package zipstream

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// TestArchive_EqualsWrittenArchive covers the sizes, offsets and counts from which
// an archive needs zip64.
func TestArchive_EqualsWrittenArchive(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	check := func(name string, files []file) {
		t.Helper()
		entries := make([]Entry, len(files))
		var out bytes.Buffer
		z := NewWriter(&out)
		for i, f := range files {
			entries[i] = f.entry()
			if err := f.add(z); err != nil {
				t.Fatal(name, err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(name, err)
		}
		compareLayout(t, name, entries, z)
	}
	check("corpus", corpus())

	for _, count := range []int{0, 1, 65_534, 65_535, 65_536} {
		files := make([]file, count)
		for i := range files {
			files[i].name = strconv.Itoa(i)
		}
		check(fmt.Sprintf("%d entries", count), files)
	}

	// A first entry that is not written puts others around 4 GiB.
	for at := range int64(250) {
		first := Entry{Name: "first", Modified: modified, Size: math.MaxUint32 - 250 + at}
		h := header{Entry: first, compressed: first.Size}
		z := &Writer{w: io.Discard, headers: []header{h}, offset: int64(len(h.local())) + h.compressed}
		files := []file{{"a", nil, false}, {"b", []byte("x"), true}, {"c", nil, false}}
		entries := []Entry{first}
		for _, f := range files {
			entries = append(entries, f.entry())
			is.NoErr(f.add(z))
		}
		is.NoErr(z.Close())
		compareLayout(t, fmt.Sprintf("entries from %d", z.headers[1].offset), entries, z)
	}
	if testing.Short() {
		return // the rest writes 8 GiB
	}
	// The largest content that is compressed into less than 4 GiB, and one more byte.
	const largest = math.MaxUint32 - 1 - blockHeader*69_900
	for _, size := range []int64{largest, largest + 1} {
		e := Entry{Name: "stream", Modified: modified, Size: size, Streamed: true}
		z := NewWriter(io.Discard)
		is.NoErr(errors.Join(z.AddStream(e, zeros{}), z.Close()))
		compareLayout(t, fmt.Sprintf("a stream of %d bytes", size), []Entry{e}, z)
	}
}

func compareLayout(t *testing.T, name string, entries []Entry, z *Writer) {
	t.Helper()
	archive := newArchive(t, entries)
	if archive.Size() != z.offset {
		t.Errorf("%s: layout has %d bytes, %d were written", name, archive.Size(), z.offset)
	}
	for i, h := range z.headers {
		if archive.offsets[i] != h.offset {
			t.Errorf("%s: entry %d is laid out at %d, written at %d", name, i, archive.offsets[i], h.offset)
		}
	}
}

func newArchive(t testing.TB, entries []Entry) *Archive {
	t.Helper()
	return must(NewArchive(entries))(t)
}

func TestNewArchive_RejectsInvalidEntries(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]Entry{
		"unknown size":        {{Name: "x", Size: -1}},
		"size beyond limit":   {{Name: "x", Size: math.MaxInt64}},
		"stream beyond limit": {{Name: "x", Size: maxSize, Streamed: true}},
		"sum beyond limit":    slices.Repeat([]Entry{{Name: "x", Size: maxSize / 2}}, 20),
		"long name":           {{Name: strings.Repeat("x", 1<<16)}},
	} {
		if _, err := NewArchive(entries); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
}

func TestArchive_TimesOutOfRange(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, year := range []int{1, 1901, 1970, 1979, 1980, 2038, 2039, 2107, 2108, 9999} {
		e := Entry{Name: "x", Modified: time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)}
		var out bytes.Buffer
		z := NewWriter(&out)
		is.NoErr(z.AddBytes(e, nil))
		is.NoErr(z.Close())
		is.Equal(newArchive(t, []Entry{e}).Size(), int64(out.Len()))
		r := must(zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len())))(t)
		is.Equal(len(r.File), 1)
		is.Equal(int(binary.LittleEndian.Uint16(out.Bytes()[12:])>>9), min(max(year, 1980), 2107)-1980)
	}
}
