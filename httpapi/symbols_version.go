package httpapi

import (
	"context"
	"errors"
	"sync"

	"example.com/canvasback/symbols"
)

// versionKey names one of the versions that a [symbols.Service] returns.
type versionKey struct {
	kind versionKind
	id   int64 // of the folder or symbol, 0 for the folder list
}

type versionKind int

const (
	folderListVersion versionKind = iota
	folderVersion
	contentsVersion
	symbolVersion
)

func readVersion(service *symbols.Service) func(context.Context, versionKey) (symbols.Version, error) {
	return func(ctx context.Context, of versionKey) (symbols.Version, error) {
		switch of.kind {
		case folderVersion:
			return service.FolderVersion(ctx, of.id)
		case contentsVersion:
			return service.ContentsVersion(ctx, of.id)
		case symbolVersion:
			return service.SymbolVersion(ctx, of.id)
		default:
			return service.FolderListVersion(ctx)
		}
	}
}

// versionReads reads versions for requests that come at the same time. A read
// serves all who were there before it began, so none of them gets a version
// that is older than its request. Many clients that look at one folder then
// cost the store little more than one.
type versionReads struct {
	read func(context.Context, versionKey) (symbols.Version, error)

	mu     sync.Mutex
	latest map[versionKey]*versionRead // running, or waiting to begin
}

// versionRead is one read of a version.
type versionRead struct {
	begun   bool
	next    *versionRead  // for those who come after it has begun
	done    chan struct{} // closed when the fields below are set
	version symbols.Version
	err     error
}

func newVersionRead() *versionRead {
	return &versionRead{done: make(chan struct{}), err: errors.New("the reader of the version has panicked")}
}

func newVersionReads(service *symbols.Service) *versionReads {
	return &versionReads{read: readVersion(service), latest: make(map[versionKey]*versionRead)}
}

// get returns a version as it is at an instant between the call and the
// return. It waits for one read of somebody else at most before its own, which
// ends when ctx does. A shared read ends, for all, with the context of the one
// who carries it out, whose time began first.
func (v *versionReads) get(ctx context.Context, of versionKey) (symbols.Version, error) {
	mine, before, first := v.join(of)
	if !first {
		<-mine.done
		return mine.version, mine.err
	}
	if before != nil {
		<-before.done
	}
	v.begin(mine)
	defer v.end(of, mine)
	mine.version, mine.err = v.read(ctx, of)
	return mine.version, mine.err
}

// join finds the read that serves a request, and that which it has to wait
// for. The first one to join a read is the one to carry it out.
func (v *versionReads) join(of versionKey) (mine, before *versionRead, first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch latest := v.latest[of]; {
	case latest == nil:
		mine = newVersionRead()
		v.latest[of] = mine
		return mine, nil, true
	case !latest.begun:
		return latest, nil, false
	case latest.next != nil:
		return latest.next, nil, false
	default:
		latest.next = newVersionRead()
		return latest.next, latest, true
	}
}

func (v *versionReads) begin(mine *versionRead) {
	v.mu.Lock()
	defer v.mu.Unlock()
	mine.begun = true
}

func (v *versionReads) end(of versionKey, mine *versionRead) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if mine.next != nil {
		v.latest[of] = mine.next
	} else {
		delete(v.latest, of)
	}
	close(mine.done)
}
