// Package bodies returns the JSON of folders, symbols and their lists, and the images
// of symbols. It knows no requests and no entity tags.
//
// A body is read completely, compressed once, and cached. Of a list that is longer than
// a quarter of the cache only the start is read in advance, and the rest while it is
// written. It is cached then, if it has not changed and fits.
//
// Invariants: a body is not older than the call that returns it. All of a settled body
// is of one version; an unsettled one may have later changes, or end early.
package bodies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/symbols"
)

// Kind is the kind of a body.
type Kind int

// The kinds of bodies.
const (
	Folders  Kind = iota // the list of folders
	Folder               // one folder
	Contents             // the list of the symbols of a folder
	Symbol               // one symbol
	Image                // the image in the data of a symbol
)

// Key identifies a body.
type Key struct {
	Tenant string
	Kind   Kind
	ID     int64         // of the folder or symbol
	Range  symbols.Range // of a list
	Fields Fields        // of Contents and Symbol; 0 means AllFields
	Gzip   bool          // compress JSON from MinCompressed bytes on
}

func (k Key) isList() bool { return k.Kind == Folders || k.Kind == Contents }

// Library returns bodies. It is safe for concurrent use.
type Library struct {
	service *symbols.Service
	timeout time.Duration
	cache   *cache
	maxRead int64 // bytes of a list that are read before it is written
	fills   singleflight.Group
	reads   chan struct{} // held by each read of records
	pins    sync.Mutex    // guards those of all contents
}

// New returns a Library with a cache that takes size bytes of memory, none if size is
// negative. A call of the service may take as long as timeout.
func New(service *symbols.Service, size int64, timeout time.Duration) *Library {
	return &Library{
		service: service,
		timeout: timeout,
		cache:   newCache(size-size/3, size-size/8), // the rest is for what the garbage collector has not freed yet
		maxRead: max(size/4, 4<<20),
		reads:   make(chan struct{}, 4*runtime.GOMAXPROCS(0)),
	}
}

// Memory counts the bytes of a body, from none. It is not safe for concurrent use.
type Memory interface {
	// TryGrow extends the Memory to size bytes, or reports false if there is no memory.
	TryGrow(size int64) bool

	// Grow is TryGrow that waits. Its error means that there is no memory, or that the
	// client may not have the body any more.
	Grow(size int64) error

	// Shrink reduces the Memory to size bytes. 0 releases it.
	Shrink(size int64)

	// New returns another Memory of the same client.
	New() Memory
}

// Get returns the current body of a key, or one that is only Current if the client has
// it, which known reports of a version; known may be nil. The caller must release the
// body. The error is [ErrNoImage], that of the [symbols.Service], or that of the memory,
// which may be in use after the body is released.
func (l *Library) Get(ctx context.Context, key Key, known func(symbols.Version) bool, memory Memory) (*Body, error) {
	key.Fields = cmp.Or(key.Fields, AllFields)
	version, size, err := l.version(ctx, key)
	if err != nil {
		return nil, err
	}
	body := &Body{Version: version, library: l, key: key, memory: memory}
	cached := l.cache.get(key, version)
	isKnown := known != nil && known(version)
	if isKnown && (key.Kind != Image || cached != nil && cached.image.Type != "") {
		body.Current = true
		return body, nil
	}
	if body.content, err = l.content(ctx, key, version, size, memory); err != nil {
		return nil, err
	}
	if key.Kind == Image && body.content.image.Type == "" {
		body.Release()
		return nil, ErrNoImage
	}
	body.Version, body.Gzip, body.Image = body.content.version, body.content.gzip, body.content.image
	body.Settled, body.Next = body.content.settled(), body.content.next
	body.Current = isKnown && body.Version == version
	return body, nil
}

// version returns the version that was current at some time during the call, and the size
// of the data of a single symbol.
func (l *Library) version(ctx context.Context, key Key) (version symbols.Version, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	service := l.service.Tenant(key.Tenant)
	switch key.Kind {
	case Folders:
		version, err = service.FolderListVersion(ctx)
	case Folder:
		version, err = service.FolderVersion(ctx, key.ID)
	case Contents:
		version, err = service.ContentsVersion(ctx, key.ID)
	default:
		var info symbols.SymbolInfo
		info, err = service.GetSymbolInfo(ctx, key.ID)
		version, size = info.Version, info.Size
	}
	return version, size, err
}

// memoryError means that a body needs size bytes of memory.
type memoryError struct{ size int64 }

func (e *memoryError) Error() string { return "memory is needed" }

// content returns the content of a key at version or later. The caller must unpin it.
func (l *Library) content(ctx context.Context, key Key, version symbols.Version, size int64, memory Memory) (*content, error) {
	pinned := false
	defer func() { // also if a store panics
		if !pinned {
			memory.Shrink(0)
		}
	}()
	for {
		c, err := l.tryContent(ctx, key, version, size, memory)
		if err == nil {
			pinned = true
			return c, nil
		}
		needed, ok := errors.AsType[*memoryError](err)
		if !ok {
			return nil, err
		}
		memory.Shrink(0) // nobody waits for others with memory that others wait for
		if err := memory.Grow(needed.size); err != nil {
			return nil, err
		}
	}
}

// tryContent is content that does not wait for memory: no request may do so during a read
// that others share, or with content that it has not counted. Requests share a read only if
// they have read the same version. It starts after one of them has, so it is not older.
func (l *Library) tryContent(ctx context.Context, key Key, version symbols.Version, size int64, memory Memory) (*content, error) {
	if c := l.cache.get(key, version); c != nil {
		err := l.pin(c, memory)
		if err == nil || c.cost() <= l.maxRead { // without memory, a long list is read page by page
			return c, err
		}
	}
	filled, err, _ := l.fills.Do(fmt.Sprint(key, version), func() (any, error) {
		if c := l.cache.get(key, version); c != nil && c.cost() <= l.maxRead { // of a read that has just ended
			return c, nil
		}
		return l.fill(ctx, key, size, memory)
	})
	if err != nil {
		return nil, err
	}
	return filled.(*content), l.pin(filled.(*content), memory)
}

// fill reads a body, or the start of a long list, and puts what is settled into the
// cache. If the list changes in the meantime, the read starts over; after three attempts
// the content is unsettled.
func (l *Library) fill(ctx context.Context, key Key, size int64, memory Memory) (*content, error) {
	const maxAttempts, maxRepeated = 3, 4 << 20
	for attempt := 1; ; attempt++ {
		c, changed, err := l.tryFill(ctx, key, size, memory)
		if err != nil {
			return nil, err
		}
		if changed && attempt < maxAttempts && c.read <= maxRepeated {
			continue
		}
		memory.Shrink(c.cost())
		if c.settled() {
			l.cache.put(key, c)
		}
		return c, nil
	}
}

// tryFill is one attempt of fill. It ends before a page of another version, which it
// reports, after maxRead bytes, and when there is no memory for more.
func (l *Library) tryFill(ctx context.Context, key Key, size int64, memory Memory) (c *content, changed bool, err error) {
	c = new(content)
	next := key.Range
	for {
		held, first := c.cost(), len(c.parts) == 0
		grow := func(size int64) error { return growUncounted(memory, held+size) }
		p, err := l.page(ctx, key, next, size, grow)
		if err == nil {
			err = grow(int64(cap(p.data)))
		}
		changed = err == nil && !first && p.version != c.version
		switch {
		case changed, errors.As(err, new(*memoryError)) && !first:
			c.short = true
			c.interrupt(key, next)
			return c, changed, nil
		case err != nil:
			return nil, false, err
		case first:
			c.version, c.image = p.version, p.image
			c.gzip = key.Gzip && key.Kind != Image && (p.more || len(p.data) >= MinCompressed)
		}
		c.add(p.data)
		if next = p.next(next); !p.more {
			if p.follows {
				c.next = next.After
			}
			return c, false, nil
		}
		if c.read > l.maxRead {
			c.interrupt(key, next)
			return c, false, nil
		}
	}
}

// growUncounted extends the memory of a body to size bytes without waiting, unless it is
// small.
func growUncounted(memory Memory, size int64) error {
	if size > maxUncounted && !memory.TryGrow(size) {
		return &memoryError{size}
	}
	return nil
}
