package bodies

import (
	"context"
	"errors"
	"sync"

	"example.com/canvasback/symbols"
)

// versionKey identifies one of the versions that a [symbols.Service] returns.
type versionKey struct {
	kind Kind // Folders, Folder, Contents or Symbol
	id   int64
}

// versionLoader reads versions. Concurrent requests for a version share reads, so
// that many viewers of one folder cost the store little more than one.
//
// Invariant: a read serves only the requests that arrived before it started.
// Requests that arrive while it runs share the next read, and no response is
// older than its request. Package singleflight cannot do this, because its calls
// join a running one.
type versionLoader struct {
	read func(context.Context, versionKey) (symbols.Version, error)

	mu    sync.Mutex
	calls map[versionKey]*versionCall // the running one, or the first to start
}

// versionCall is one read of a version. The request that creates it executes it.
type versionCall struct {
	started bool
	next    *versionCall  // for requests that arrive after the start
	done    chan struct{} // closed when version and err are set
	version symbols.Version
	err     error
}

func newVersionCall() *versionCall {
	return &versionCall{done: make(chan struct{}), err: errors.New("panic while reading a version")}
}

func newVersionLoader(service *symbols.Service) *versionLoader {
	return &versionLoader{
		read: func(ctx context.Context, key versionKey) (symbols.Version, error) {
			switch key.kind {
			case Folder:
				return service.FolderVersion(ctx, key.id)
			case Contents:
				return service.ContentsVersion(ctx, key.id)
			case Symbol:
				return service.SymbolVersion(ctx, key.id)
			default:
				return service.FolderListVersion(ctx)
			}
		},
		calls: make(map[versionKey]*versionCall),
	}
}

// get returns the version that was current at some time during the call. It waits
// for at most one other read before its own. Waiting ignores ctx: a read ends with
// the context of the request that executes it, which has an earlier deadline.
func (l *versionLoader) get(ctx context.Context, key versionKey) (symbols.Version, error) {
	call, running, created := l.join(key)
	if !created {
		<-call.done
		return call.version, call.err
	}
	if running != nil {
		<-running.done
	}
	l.start(call)
	defer l.finish(key, call)
	call.version, call.err = l.read(ctx, key)
	return call.version, call.err
}

// join returns the call that serves a new request, whether the request has created
// it, and the running call that it must wait for, if any.
func (l *versionLoader) join(key versionKey) (call, running *versionCall, created bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch first := l.calls[key]; {
	case first == nil:
		call = newVersionCall()
		l.calls[key] = call
		return call, nil, true
	case !first.started:
		return first, nil, false
	case first.next != nil:
		return first.next, nil, false
	default:
		first.next = newVersionCall()
		return first.next, first, true
	}
}

func (l *versionLoader) start(call *versionCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	call.started = true
}

func (l *versionLoader) finish(key versionKey, call *versionCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if call.next != nil {
		l.calls[key] = call.next
	} else {
		delete(l.calls, key)
	}
	close(call.done)
}
