package bodies

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// newLibrary returns a Library over a folder of count symbols with size bytes of data.
func newLibrary(t *testing.T, cacheSize int64, count, size int) *Library {
	t.Helper()
	is := is.New(t)
	service, err := symbols.NewService(memory.New().Symbols(), &symbols.Options{PageSize: 10_000})
	is.NoErr(err)
	_, err = service.CreateFolder(t.Context(), "A")
	is.NoErr(err)
	for i := range count {
		_, err := service.CreateSymbol(t.Context(), 1, symbols.NewSymbol{
			Name: fmt.Sprint("symbol ", i), Type: "text/plain", Data: strings.Repeat(fmt.Sprint(i, " "), size/4),
		})
		is.NoErr(err)
	}
	return New(service, cacheSize, time.Minute)
}

// memoryOf counts memory in an int64.
type memoryOf struct {
	used *int64
	size int64
}

func (m *memoryOf) Shrink(size int64) {
	*m.used -= m.size - min(m.size, size)
	m.size = min(m.size, size)
}

func (m *memoryOf) Release() { m.Shrink(0) }

// free is memory without end.
func free(int64, bool) (Memory, error) { return &memoryOf{used: new(int64)}, nil }

// read returns the text of a body.
func read(t *testing.T, l *Library, key Key) (string, *Body) {
	t.Helper()
	is := is.New(t)
	body, err := l.Get(t.Context(), key, nil, free)
	is.NoErr(err)
	defer body.Release()
	var out bytes.Buffer
	is.NoErr(body.Write(t.Context(), &out))
	if size := body.Size(); size >= 0 {
		is.Equal(int64(out.Len()), size)
	}
	if !body.Gzip {
		return out.String(), body
	}
	in, err := gzip.NewReader(&out)
	is.NoErr(err)
	in.Multistream(false) // browsers may read the first member only
	text, err := io.ReadAll(in)
	is.NoErr(err)
	is.Equal(out.Len(), 0)
	return string(text), body
}

// TestLibrary_PartsAreJoined compares lists of many parts, compressed and not, cached
// and not, with one that has a single part.
func TestLibrary_PartsAreJoined(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, cacheSize := range []int64{64 << 20, 30 << 10, -1} {
		l := newLibrary(t, cacheSize, 50, 4000)
		want := "["
		for i := range 50 {
			symbol, err := l.service.GetSymbol(t.Context(), int64(i+1))
			is.NoErr(err)
			if i > 0 {
				want += ","
			}
			want += string(AppendSymbol(nil, symbol))
		}
		want += "]"
		for range 2 {
			for _, compress := range []bool{false, true} {
				got, body := read(t, l, Key{Kind: Contents, ID: 1, Gzip: compress})
				is.Equal(got, want)
				is.Equal(body.Gzip, compress)
				is.True(body.Settled)
				is.True(len(body.parts) > 10)
			}
		}
		l.maxRead = 20_000
		got, body := read(t, l, Key{Kind: Contents, ID: 1, Gzip: true, Fields: idField | dataField | sizeField})
		is.True(strings.HasPrefix(got, `[{"id":1,"data":"0 0 0 `) && strings.HasSuffix(got, `,"size":3000}]`))
		is.Equal(body.Size(), int64(-1))
		is.True(!body.Settled)
	}
}

// TestLibrary_CountsPartsOnce has two responses with the same parts.
func TestLibrary_CountsPartsOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, 64<<20, 50, 4000)
	held := int64(0)
	reserve := func(size int64, _ bool) (Memory, error) {
		held += size
		return &memoryOf{&held, size}, nil
	}
	first, err := l.Get(t.Context(), Key{Kind: Contents, ID: 1}, nil, reserve)
	is.NoErr(err)
	once := held
	is.True(once > 150_000)
	second, err := l.Get(t.Context(), Key{Kind: Contents, ID: 1}, nil, reserve)
	is.NoErr(err)
	is.Equal(held, once)
	first.Release()
	is.Equal(held, once)
	second.Release()
	is.Equal(held, int64(0))
	small, err := l.Get(t.Context(), Key{Kind: Contents, ID: 1, Range: symbols.Range{Limit: 3}}, nil, reserve)
	is.NoErr(err)
	is.Equal(held, int64(0))
	small.Release()
}

// TestLibrary_StreamsWithoutMemory: a list for which there is no memory is read while it
// is written, and holds none afterwards.
func TestLibrary_StreamsWithoutMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, -1, 50, 4000)
	reserved, held := 0, int64(0)
	body, err := l.Get(t.Context(), Key{Kind: Contents, ID: 1}, nil, func(size int64, wait bool) (Memory, error) {
		if reserved++; reserved > 1 && !wait {
			return nil, budget.ErrExhausted
		}
		held += size
		return &memoryOf{&held, size}, nil
	})
	is.NoErr(err)
	is.True(!body.Settled)
	var out bytes.Buffer
	is.NoErr(body.Write(t.Context(), &out))
	body.Release()
	is.Equal(held, int64(0))
	want, _ := read(t, l, Key{Kind: Contents, ID: 1})
	is.Equal(out.String(), want)

	_, err = l.Get(t.Context(), Key{Kind: Symbol, ID: 1}, nil, free)
	is.NoErr(err)
}

// TestLibrary_KnownVersionIsNotRead counts no part for a client that has the body.
func TestLibrary_KnownVersionIsNotRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, 64<<20, 3, 100)
	for _, kind := range []Kind{Folders, Folder, Contents, Symbol} {
		body, err := l.Get(t.Context(), Key{Kind: kind, ID: 1}, func(symbols.Version) bool { return true }, free)
		is.NoErr(err)
		is.True(body.Current)
		is.Equal(len(l.cache.entries), 0)
	}
	_, err := l.Get(t.Context(), Key{Kind: Image, ID: 1}, func(symbols.Version) bool { return true }, free)
	is.Equal(err, ErrNoImage) // also for a client that has the version
}

func TestCache_EvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newCache(10 << 10)
	put := func(id int64, version symbols.Version) {
		c.put(Key{ID: id}.first(), &part{version: version, data: make([]byte, 1<<10)})
		is.True(c.size <= c.limit)
	}
	for id := range int64(5) { // each takes 2 KiB
		put(id, 1)
	}
	is.True(c.get(Key{ID: 0}.first(), 1) != nil)
	put(5, 1)
	is.True(c.get(Key{ID: 0}.first(), 1) != nil)
	is.True(!c.has(Key{ID: 1}.first()))
	put(0, 2)
	is.True(c.get(Key{ID: 0}.first(), 1) == nil) // replaced
	is.True(c.get(Key{ID: 0}.first(), 2) != nil)
	is.Equal(len(c.entries), 5)
}

func TestCombineCRC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		text := make([]byte, random.IntN(5000))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		at := random.IntN(len(text) + 1)
		is.Equal(combineCRC(crc32.ChecksumIEEE(text[:at]), crc32.ChecksumIEEE(text[at:]), int64(len(text)-at)), crc32.ChecksumIEEE(text))
	}
}

func TestGzipWriter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	w := NewGzipWriter(&out)
	for _, text := range []string{"", "a", "", "bc", strings.Repeat("d", 100_000)} {
		n, err := io.WriteString(w, text)
		is.NoErr(err)
		is.Equal(n, len(text))
	}
	is.NoErr(w.Close())
	in, err := gzip.NewReader(&out)
	is.NoErr(err)
	got, err := io.ReadAll(in)
	is.NoErr(err)
	is.Equal(string(got), "abc"+strings.Repeat("d", 100_000))

	in, err = gzip.NewReader(bytes.NewReader(Gzip([]byte("text"))))
	is.NoErr(err)
	got, err = io.ReadAll(in)
	is.NoErr(err)
	is.Equal(string(got), "text")
}

// TestLibrary_NeverOlderThanGet changes a folder while its list is read from the cache.
func TestLibrary_NeverOlderThanGet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, 64<<20, 5, 4000)
	for i := range 20 {
		name := fmt.Sprint("name ", i)
		_, err := l.service.UpdateSymbol(context.Background(), int64(1+i%5), symbols.SymbolFields{Name: &name}, symbols.Any)
		is.NoErr(err)
		for _, compress := range []bool{false, true} {
			text, _ := read(t, l, Key{Kind: Contents, ID: 1, Gzip: compress})
			is.True(strings.Contains(text, `"`+name+`"`))
		}
	}
}
