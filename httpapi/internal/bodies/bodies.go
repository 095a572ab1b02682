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
	}
}

// Reserve counts size bytes of memory until release is called. It waits for memory if wait
// is set, and otherwise returns an error at once.
type Reserve func(size int64, wait bool) (release func(), err error)

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
	first := body.key.first()
	if known == nil {
		known = func(symbols.Version) bool { return false }
		if !first.isList() && first.Kind != Image && !l.cache.has(first) {
			p, err := l.load(ctx, first) // one read of the store instead of two
			if err != nil {
				return err
			}
			return body.add(p)
		}
	}
	version, err := l.version(ctx, body.key)
	switch {
	case err != nil:
		return err
	case first.Kind == Image:
		return l.fillImage(ctx, body, version, known)
	case known(version):
		body.Version, body.Current = version, true
		return nil
	case first.isList():
		return l.fillList(ctx, body, version)
	}
	p, _, err := l.part(ctx, first, version)
	if err != nil {
		return err
	}
	return body.add(p)
}

// version returns the version that was current at some time during the call. Concurrent
// calls share reads of the store.
func (l *Library) version(ctx context.Context, key Key) (symbols.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	switch key.Kind {
	case Folders:
		return l.service.FolderListVersion(ctx)
	case Folder:
		return l.service.FolderVersion(ctx, key.ID)
	case Contents:
		return l.service.ContentsVersion(ctx, key.ID)
	default:
		return l.service.SymbolVersion(ctx, key.ID)
	}
}

// fillImage reads an image that is too long for the cache only if the client does not
// have it.
func (l *Library) fillImage(ctx context.Context, body *Body, version symbols.Version, known func(symbols.Version) bool) error {
	p, _, err := l.part(ctx, body.key.first(), version)
	if err == nil && p.dropped && !known(p.version) {
		p, err = l.load(ctx, body.key.first())
	}
	switch {
	case err != nil:
		return err
	case p.image.Type == "":
		return ErrNoImage
	case known(p.version):
		body.Version, body.Current = p.version, true
		return nil
	}
	return body.add(p)
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
	for next, more := body.key.first(), true; more; {
		p, cached, err := l.part(ctx, next, version)
		if err != nil {
			return 0, 0, err
		}
		if len(body.parts) > 0 && p.version != version {
			body.interrupt(next)
			return read, p.version, nil
		}
		if err := body.add(p); err != nil {
			if len(body.parts) == 0 {
				return 0, 0, err
			}
			body.interrupt(next)
			return read, version, nil
		}
		version = p.version
		if !cached {
			read += max(p.cost(), p.size/maxRatio)
		}
		if next, more = next.after(p); !more && p.more {
			body.Next = p.last
		}
		if more && read > l.maxRead {
			body.interrupt(next)
			break
		}
	}
	return read, version, nil
}
