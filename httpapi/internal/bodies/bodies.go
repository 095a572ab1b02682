// Package bodies returns the JSON of folders, symbols and their lists, and the images
// of symbols. It knows no requests and no entity tags.
//
// A body is a sequence of parts. Each part has the records of one page of the store,
// about 256 KiB, and comes from the cache or from the store. A body begins with the
// parts that were read in advance; the rest of a long list is read while it is written.
//
// Invariants: a body is not older than the call that returns it. The parts of a settled
// body have the same version; an unsettled one may also have later changes.
package bodies

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/httpapi/internal/budget"
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
	Fields Fields        // of Contents; 0 means AllFields
	Gzip   bool          // compress JSON from MinCompressed bytes on
}

// isList reports whether a body of the key may have several parts.
func (k Key) isList() bool { return k.Kind == Folders || k.Kind == Contents }

// Library returns bodies. It is safe for concurrent use.
type Library struct {
	service *symbols.Service
	timeout time.Duration
	cache   *cache
	maxRead int64 // bytes of a list that are read before it is written
	fills   singleflight.Group
	loads   chan struct{} // held by each load
	pins    pins
}

// New returns a Library with a cache that takes size bytes of memory, none if size is
// negative. A call of the service may take as long as timeout.
func New(service *symbols.Service, size int64, timeout time.Duration) *Library {
	return &Library{
		service: service,
		timeout: timeout,
		cache:   newCache(size - size/3), // a third is for what the garbage collector has not freed yet
		maxRead: max(size/4, 4<<20),
		loads:   make(chan struct{}, 4*runtime.GOMAXPROCS(0)),
	}
}

// Reserve counts size bytes of memory. It waits for memory if wait is set, and otherwise
// returns an error at once: [budget.ErrExhausted].
type Reserve func(size int64, wait bool) (Memory, error)

// Memory is what a Reserve counts, until Release is called.
type Memory interface {
	Shrink(size int64)
	Release()
}

// Get returns the current body of a key, or one that is only Current if the client has
// it, which known reports of a version; known may be nil. The caller must release the
// body. The error is [ErrNoImage], that of the [symbols.Service], or that of reserve.
func (l *Library) Get(ctx context.Context, key Key, known func(symbols.Version) bool, reserve Reserve) (*Body, error) {
	if key.Kind == Contents && key.Fields == 0 {
		key.Fields = AllFields
	}
	body := &Body{library: l, key: key, reserve: reserve, Settled: true}
	if err := l.fill(ctx, body, known); err != nil {
		body.Release()
		return nil, err
	}
	return body, nil
}

// fill reads what a body has in advance.
func (l *Library) fill(ctx context.Context, body *Body, known func(symbols.Version) bool) error {
	if known == nil {
		known = func(symbols.Version) bool { return false }
	}
	version, size, err := l.version(ctx, body.key)
	if err != nil {
		return err
	}
	first := body.key.first()
	cached := l.cache.get(first, version)
	switch {
	case known(version) && (first.Kind != Image || cached != nil && cached.image.Type != ""):
		body.Version, body.Current = version, true
		return nil
	case first.isList():
		return l.fillList(ctx, body, version)
	}
	p, _, err := body.start(ctx, first, version, size)
	switch {
	case err != nil:
		return err
	case first.Kind == Image && p.image.Type == "":
		return ErrNoImage
	case known(p.version):
		body.Current = true
	}
	return nil
}

// version returns the version that was current at some time during the call, and the size
// of the data of a single symbol unless it is small. Concurrent calls share reads of the
// store.
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
		if readFactor*size <= maxUncounted {
			size = 0
		}
	}
	return version, size, err
}

// maxRatio is the compression ratio above which a part counts for more than its size. It
// bounds the time until the first byte of a list.
const maxRatio = 4

// fillList reads a list, or the start of a long one. If the list changes in the
// meantime, the read starts over; after three attempts the body is unsettled.
func (l *Library) fillList(ctx context.Context, body *Body, version symbols.Version) error {
	const maxAttempts, maxRepeated = 3, 4 << 20
	for attempt := 1; ; attempt++ {
		read, latest, err := l.tryFillList(ctx, body, version)
		if err != nil || latest == body.Version || read > maxRepeated || attempt == maxAttempts {
			return err
		}
		body.reset()
		version = latest
	}
}

// tryFillList is one attempt of fillList. It returns how many bytes it has read from
// the store, and the version of the part that it has read last. It ends before a part of
// another version, after maxRead bytes, and when there is no memory for more.
func (l *Library) tryFillList(ctx context.Context, body *Body, version symbols.Version) (read int64, latest symbols.Version, err error) {
	next := body.key.first()
	p, cached, err := body.start(ctx, next, version, 0)
	for err == nil {
		if !cached {
			read += max(p.cost(), p.size/maxRatio)
		}
		var more bool
		if next, more = next.after(p); !more {
			if p.more {
				body.Next = p.last
			}
			return read, p.version, nil
		}
		if read > l.maxRead {
			break
		}
		var memory Memory
		if p, cached, memory, err = body.read(ctx, next, body.Version, 0); err != nil {
			break
		}
		if p.version != body.Version {
			release(memory)
			body.interrupt(next)
			return read, p.version, nil
		}
		err = body.add(p, memory)
	}
	if err != nil && (len(body.parts) == 0 || !errors.Is(err, budget.ErrExhausted)) {
		return 0, 0, err
	}
	body.interrupt(next)
	return read, body.Version, nil
}
