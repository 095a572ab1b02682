package bodies

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

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

// memoryOf counts memory in used. TryGrow has limit bytes.
type memoryOf struct {
	used  *int64
	limit int64
	size  int64
}

func (m *memoryOf) TryGrow(size int64) bool {
	return size <= max(m.limit, m.size) && m.Grow(size) == nil
}

func (m *memoryOf) Grow(size int64) error {
	*m.used += max(size-m.size, 0)
	m.size = max(m.size, size)
	return nil
}

func (m *memoryOf) Shrink(size int64) {
	*m.used -= m.size - min(m.size, size)
	m.size = min(m.size, size)
}

func (m *memoryOf) New() Memory { return &memoryOf{used: m.used, limit: m.limit} }

// free returns memory without end.
func free() Memory { return &memoryOf{used: new(int64), limit: 1 << 40} }

// get returns a body whose memory is counted in m.
func get(t *testing.T, l *Library, key Key, m Memory) *Body {
	t.Helper()
	body, err := l.Get(t.Context(), key, nil, m)
	is.New(t).NoErr(err)
	return body
}

// read returns the text of a body.
func read(t *testing.T, l *Library, key Key) (string, *Body) {
	t.Helper()
	is := is.New(t)
	body := get(t, l, key, free())
	defer body.Release()
	var out bytes.Buffer
	size := body.Size()
	is.NoErr(body.Write(t.Context(), &out))
	is.Equal(size >= 0, body.Settled)
	if body.Settled {
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
			want += string(AppendFields(nil, symbol, AllFields))
		}
		want += "]"
		for range 2 {
			for _, compress := range []bool{false, true} {
				got, body := read(t, l, Key{Kind: Contents, ID: 1, Gzip: compress})
				is.Equal(got, want)
				is.Equal(body.Gzip, compress)
				is.True(body.Settled)
			}
		}
		l.maxRead = 20_000
		got, body := read(t, l, Key{Kind: Contents, ID: 1, Gzip: true, Fields: idField | dataField | sizeField})
		is.True(strings.HasPrefix(got, `[{"id":1,"data":"0 0 0 `) && strings.HasSuffix(got, `,"size":3000}]`))
		is.True(!body.Settled)
	}
}

// TestLibrary_CachesLongLists reads lists of which the start is read in advance.
func TestLibrary_CachesLongLists(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, compress := range []bool{false, true} {
		key := Key{Kind: Contents, ID: 1, Gzip: compress, Fields: AllFields}
		l := newLibrary(t, 64<<20, 50, 4000)
		l.maxRead = 20_000
		held := int64(0)
		memory := &memoryOf{used: &held, limit: 1 << 40}

		first, body := read(t, l, key)
		is.True(!body.Settled)
		again, body := read(t, l, key)
		is.True(body.Settled)
		is.Equal(again, first)

		held = 0 // while it is written, all that was read is counted
		body = get(t, l, Key{Kind: Contents, ID: 1, Gzip: compress, Fields: AllFields | sizeField}, memory.New())
		started := held
		is.NoErr(body.Write(t.Context(), writerFunc(func(p []byte) { is.True(held >= min(started, maxUncounted)) })))
		body.Release()
		is.Equal(held, int64(0))

		// A list that changes while it is written, or for which there is no memory, is not kept.
		name := "changed"
		for _, disturb := range []func(*Body){
			func(*Body) {
				_, err := l.service.UpdateSymbol(t.Context(), 50, symbols.SymbolFields{Name: &name}, symbols.Any)
				is.NoErr(err)
			},
			func(b *Body) { b.memory.(*memoryOf).limit = 1 },
		} {
			name += "."
			_, err := l.service.UpdateSymbol(t.Context(), 1, symbols.SymbolFields{Name: &name}, symbols.Any)
			is.NoErr(err)
			body := get(t, l, key, memory.New())
			is.True(!body.Settled)
			disturb(body)
			is.NoErr(body.Write(t.Context(), io.Discard))
			body.Release()
			is.Equal(held, int64(0))
			is.True(l.cache.get(key, body.Version) == nil)
		}

		_, _ = read(t, l, key)
		memory.limit = 60_000 // enough for the start, but not for all
		body = get(t, l, key, memory.New())
		is.Equal(body.Settled, compress) // the compressed list is small
		body.Release()
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestLibrary_CountsContentOnce has two responses with the same content.
func TestLibrary_CountsContentOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, 64<<20, 50, 4000)
	held := int64(0)
	memory := &memoryOf{used: &held, limit: 1 << 40}
	first := get(t, l, Key{Kind: Contents, ID: 1}, memory.New())
	once := held
	is.True(once > 150_000)
	is.Equal(once, first.content.cost())
	second := get(t, l, Key{Kind: Contents, ID: 1}, memory.New())
	is.Equal(held, once)
	first.Release()
	is.Equal(held, once)
	second.Release()
	is.Equal(held, int64(0))
	cached := get(t, l, Key{Kind: Contents, ID: 1}, memory.New())
	is.Equal(held, once)
	cached.Release()
	is.Equal(held, int64(0))
	small := get(t, l, Key{Kind: Contents, ID: 1, Range: symbols.Range{Limit: 3}}, memory.New())
	is.Equal(held, int64(0))
	small.Release()
}

// TestLibrary_StreamsWithoutMemory: a list for which there is no memory is read while it
// is written, and holds none afterwards. A page ends there.
func TestLibrary_StreamsWithoutMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, -1, 50, 4000)
	held := int64(0)
	memory := &memoryOf{used: &held, limit: 70_000}
	body := get(t, l, Key{Kind: Contents, ID: 1}, memory.New())
	is.True(!body.Settled)
	is.True(held <= 70_000)
	var out bytes.Buffer
	is.NoErr(body.Write(t.Context(), &out))
	body.Release()
	is.Equal(held, int64(0))
	want, _ := read(t, l, Key{Kind: Contents, ID: 1})
	is.Equal(out.String(), want)

	key := Key{Kind: Contents, ID: 1, Range: symbols.Range{Limit: 40}}
	l = newLibrary(t, 64<<20, 50, 4000)
	page := get(t, l, key, memory.New())
	is.True(!page.Settled) // it ends early
	is.True(page.Next > 5 && page.Next < 40)
	page.Release()
	_, page = read(t, l, key)
	is.True(page.Settled)
	is.Equal(page.Next, int64(40))
}

// TestLibrary_WaitsForMemory: what fits only later is read again when it fits.
func TestLibrary_WaitsForMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, -1, 1, 400_000)
	for _, kind := range []Kind{Contents, Symbol} {
		held := int64(0)
		m := &memoryOf{used: &held}
		body := get(t, l, Key{Kind: kind, ID: 1}, &grownMemory{m})
		is.True(held >= 200_000)
		body.Release()
		is.Equal(held, int64(0))
	}
}

// grownMemory has the memory that a call has waited for.
type grownMemory struct{ *memoryOf }

func (m *grownMemory) Grow(size int64) error {
	m.limit = size
	return m.memoryOf.Grow(size)
}

// TestLibrary_KnownVersionIsNotRead counts no part for a client that has the body.
func TestLibrary_KnownVersionIsNotRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLibrary(t, 64<<20, 3, 100)
	for _, kind := range []Kind{Folders, Folder, Contents, Symbol} {
		body, err := l.Get(t.Context(), Key{Kind: kind, ID: 1}, func(symbols.Version) bool { return true }, free())
		is.NoErr(err)
		is.True(body.Current)
		is.Equal(len(l.cache.entries), 0)
	}
	_, err := l.Get(t.Context(), Key{Kind: Image, ID: 1}, func(symbols.Version) bool { return true }, free())
	is.Equal(err, ErrNoImage) // also for a client that has the version
}

func TestCache_EvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newCache(10<<10, 12<<10)
	put := func(id int64, version symbols.Version) {
		c.put(Key{ID: id}, &content{version: version, size: 1 << 10})
		is.True(c.size <= c.limit)
	}
	for id := range int64(5) { // each takes 2 KiB
		put(id, 1)
	}
	is.True(c.get(Key{ID: 0}, 1) != nil)
	put(5, 1)
	is.True(c.get(Key{ID: 0}, 1) != nil)
	is.True(c.get(Key{ID: 1}, 1) == nil)
	put(0, 2)
	is.True(c.get(Key{ID: 0}, 1) == nil) // replaced
	is.True(c.get(Key{ID: 0}, 2) != nil)
	is.Equal(len(c.entries), 5)

	// One content above the limit is kept alone.
	long := &content{version: 1, size: 10<<10 + 1}
	c.put(Key{ID: 6}, long)
	is.Equal(c.get(Key{ID: 6}, 1), long)
	is.Equal(len(c.entries), 1)
	put(7, 1)
	is.Equal(len(c.entries), 1)
	c.put(Key{ID: 8}, &content{version: 1, size: 12 << 10})
	is.Equal(len(c.entries), 1)
	is.True(c.get(Key{ID: 8}, 1) == nil)
}
