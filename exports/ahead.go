package exports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// window is how much of a file is read ahead of its turn. A file that ends
// within it is known whole before its entry begins: it gets a complete header,
// and is skipped if it breaks.
const window = 1 << 20

// ahead opens the files of a batch in order, before their turn to be written.
// So many are ahead at a time, and so many of them hold a connection to the
// same host. Each may start when the one that far before it is finished or, of
// a host, off its connection; so the file whose turn it is never waits for a
// later one.
type ahead struct {
	service  *Service
	files    []*pending
	started  int
	finished int
	waits    atomic.Int32 // in vain and for long, in a row
	wg       sync.WaitGroup
	waiting  func() // is called when the file whose turn it is does not come soon
}

// host is where files of a batch come from.
type host struct {
	files []*pending
	waits atomic.Int32 // in vain and for long, in a row
}

// dead reports whether so many files of the host, or so many of all hosts, have
// been waited for in vain and for long, one after the other, that the rest is
// given up: a batch of a thousand must not wait for each in turn.
func (a *ahead) dead(h *host) bool {
	return int(h.waits.Load()) >= 2*a.service.aheadOfHost || int(a.waits.Load()) >= 2*a.service.ahead
}

// pending is a file on its way.
type pending struct {
	export  Export
	host    *host
	before  *pending      // of the same host; to be off its connection first
	turn    chan struct{} // closed when the writer waits for it
	outcome chan opened   // filled once
	known   *opened       // what was in outcome, once somebody has looked
	off     chan struct{} // closed when it needs no connection any more
	leave   func()        // closes off
}

// opened is what has become of a file ahead of its turn.
type opened struct {
	download *Download
	head     []byte    // what has been read of the file
	whole    bool      // head is all of it
	crc      uint32    // of a whole file
	next     []byte    // what has been read beyond head
	at       time.Time // by the clock of the service, when it was begun to be opened
	read     time.Time // when head had been read
	err      error
	release  func() // gives back the memory of head
}

func (o *opened) close() {
	if o.download != nil {
		defer o.release()
		o.download.Close()
	}
}

func newAhead(service *Service, exports []Export) *ahead {
	a := &ahead{service: service, files: make([]*pending, len(exports)), waiting: func() {}}
	hosts := make(map[string]*host)
	for i, export := range exports {
		name := hostOf(export.ExportedURL)
		if hosts[name] == nil {
			hosts[name] = new(host)
		}
		file := &pending{
			export:  export,
			host:    hosts[name],
			turn:    make(chan struct{}),
			outcome: make(chan opened, 1),
			off:     make(chan struct{}),
		}
		file.leave = sync.OnceFunc(func() { close(file.off) })
		if earlier := file.host.files; len(earlier) >= service.aheadOfHost {
			file.before = earlier[len(earlier)-service.aheadOfHost]
		}
		file.host.files = append(file.host.files, file)
		a.files[i] = file
	}
	return a
}

// hostOf is what connections are counted by.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// start lets files begin up to the limit.
func (a *ahead) start(ctx context.Context) {
	for ; a.started < min(a.finished+a.service.ahead, len(a.files)); a.started++ {
		file := a.files[a.started]
		a.wg.Go(func() {
			outcome := a.open(ctx, file)
			if outcome.whole || outcome.err != nil {
				file.leave()
			}
			file.outcome <- outcome
		})
	}
}

// current is the file whose turn it is.
func (a *ahead) current() *pending { return a.files[a.finished] }

// take waits for the outcome of the file whose turn it is.
func (a *ahead) take() opened {
	file := a.current()
	if file.known == nil {
		close(file.turn)
		select {
		case outcome := <-file.outcome:
			file.known = &outcome
			return outcome
		default:
		}
		soon := time.NewTimer(50 * time.Millisecond)
		defer soon.Stop()
		select {
		case outcome := <-file.outcome:
			file.known = &outcome
		case <-soon.C:
			a.waiting()
			file.known = new(<-file.outcome)
		}
	}
	return *file.known
}

// await waits for the outcomes of the files that have started, but not for
// long.
func (a *ahead) await(patience time.Duration) {
	late, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, file := range a.files[a.finished:a.started] {
		if file.known != nil {
			continue
		}
		select {
		case outcome := <-file.outcome:
			file.known = &outcome
		case <-late.Done():
			select { // it may have come while another was waited for
			case outcome := <-file.outcome:
				file.known = &outcome
			default:
			}
		}
	}
}

// settle makes sure that a file that is not known whole still goes on: its
// origin may have given up a connection on which nothing was read for a while.
// It reads on before the entry begins, and if that fails, opens the file anew.
// What can be read need not be all that the origin was to send; so a file that
// could not be resumed later is opened anew at once if it has waited for long.
func (a *ahead) settle(ctx context.Context) opened {
	outcome := a.take()
	if outcome.err != nil || outcome.whole {
		return outcome
	}
	if !outcome.stale(a.service.originPatience) && outcome.readOn() == nil {
		return outcome
	}
	outcome.close()
	outcome = a.openNow(ctx, a.current(), func() {})
	if outcome.err == nil && !outcome.whole {
		if err := outcome.readOn(); err != nil {
			a.lost(ctx, a.current())
			outcome.close()
			outcome = opened{err: openError(ctx, err)}
		}
	}
	a.current().known = &outcome
	return outcome
}

// stale reports whether a file has waited for its turn so long that its origin
// may have given it up, and could not be resumed if it has.
func (o *opened) stale(patience time.Duration) bool {
	_, local := o.download.Body.(*os.File)
	tag := o.download.ETag
	return !local && (tag == "" || strings.HasPrefix(tag, "W/")) && time.Since(o.read) > patience
}

// readOn reads a little beyond the head.
func (o *opened) readOn() error {
	next := make([]byte, 64<<10-1) // with the head, 64 KiB beyond the window
	n, err := readUntil(o.download.Body, next, time.Now().Add(time.Second))
	o.next = next[:n]
	if err == io.EOF {
		return nil // and the body will say it again
	}
	return err
}

// content is a whole file, or what there is of it.
func (o *opened) content() io.Reader {
	return io.MultiReader(bytes.NewReader(o.head), bytes.NewReader(o.next), o.download.Body)
}

// finish is done with the file whose turn it was, and lets others begin.
func (a *ahead) finish(ctx context.Context) {
	file := a.current()
	file.known.close()
	file.known = nil // and with it the head
	file.leave()
	a.finished++
	a.start(ctx)
}

// close waits until nothing runs any more, which is soon when the context of
// start has ended, and closes the files that are left.
func (a *ahead) close() {
	a.wg.Wait()
	for _, file := range a.files[a.finished:a.started] {
		if file.known == nil {
			file.known = new(<-file.outcome)
		}
		defer file.known.close() // so that one that panics does not keep the others open
	}
}

// open opens a file when its host's turn has come, and reads its head when
// there is memory for it.
func (a *ahead) open(ctx context.Context, file *pending) opened {
	if file.before != nil {
		select {
		case <-file.before.off:
		case <-ctx.Done():
			return opened{err: openError(ctx, ctx.Err())}
		}
	}
	release := func() {}
	select {
	case a.service.windows <- struct{}{}:
		release = sync.OnceFunc(func() { <-a.service.windows })
	case <-file.turn: // one window for each batch is beyond the bound
	case <-ctx.Done():
		return opened{err: openError(ctx, ctx.Err())}
	}
	return a.openNow(ctx, file, release)
}

// openNow opens a file and reads its head. In its goroutine no host program
// can guard against an Opener that panics: the file fails, and not the process.
func (a *ahead) openNow(ctx context.Context, file *pending, release func()) (outcome opened) {
	var download *Download
	defer func() {
		if reason := recover(); reason != nil {
			defer release()
			if download != nil {
				defer func() { recover() }() // it is known to be broken
				defer download.Close()
			}
			outcome = opened{err: fmt.Errorf("%w: panic: %v\n%s", ErrFailed, reason, debug.Stack())}
		}
		if outcome.err != nil {
			a.lost(ctx, file)
		}
	}()
	if a.dead(file.host) {
		release()
		return opened{err: fmt.Errorf("%w: as others before it have", ErrTimeout)}
	}
	at, began := a.service.now(), time.Now()
	var err error
	if download, err = a.service.Open(ctx, file.export); err != nil {
		if errors.Is(err, ErrTimeout) || time.Since(began) > time.Second {
			file.host.waits.Add(1)
			a.waits.Add(1)
		}
		release()
		return opened{err: err}
	}
	file.host.waits.Store(0)
	a.waits.Store(0)
	buffer, free := headBuffer(download.Size)
	head, whole, err := readHead(download, buffer, began.Add(a.service.openTimeout))
	if err != nil {
		download.Close()
		free()
		release()
		return opened{err: openError(ctx, err)}
	}
	var crc uint32
	if whole {
		crc = crc32.ChecksumIEEE(head) // here, where it can be done beside other work
		a.service.sizes.learn(file.export, originName(file.export, download), int64(len(head)), at)
		download.Close()
		download.Body = io.NopCloser(strings.NewReader(""))
	}
	return opened{download: download, head: head, whole: whole, crc: crc, at: at, read: time.Now(), release: func() { free(); release() }}
}

// lost forgets a file that cannot be had, unless nobody wants it any more. It
// may be called for a panic of the clock, which is asked here too.
func (a *ahead) lost(ctx context.Context, file *pending) {
	defer func() { recover() }()
	if ctx.Err() == nil {
		a.service.sizes.forget(file.export)
	}
}

// heads are buffers for the heads of large files and of those whose size is
// not known. One byte more than the window lets a file of just its size meet
// its end.
var heads = sync.Pool{New: func() any { return new([window + 1]byte) }}

// headBuffer returns a buffer for the head of a file of that size.
func headBuffer(size int64) (buffer []byte, free func()) {
	if 0 <= size && size < window/2 {
		return make([]byte, size+1), func() {}
	}
	pooled := heads.Get().(*[window + 1]byte)
	return pooled[:], sync.OnceFunc(func() { heads.Put(pooled) })
}

// readHead reads as much of a file as fits, and as comes before a time, and
// tells whether that is all.
func readHead(download *Download, buffer []byte, until time.Time) (head []byte, whole bool, err error) {
	n, err := readUntil(download.Body, buffer, until)
	if err == io.EOF {
		if download.Size >= 0 && int64(n) != download.Size {
			return nil, false, io.ErrUnexpectedEOF
		}
		return buffer[:n], true, nil
	}
	return buffer[:n], false, err
}
