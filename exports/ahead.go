package exports

import (
	"context"
	"io"
	"net/url"
	"strings"
	"sync"
)

// window is how much of a file is read ahead of its turn. A file that ends
// within it is known whole before its entry begins: it gets a complete header,
// and is skipped if it breaks.
const window = 1 << 20

// ahead opens the files of a batch in order, before their turn to be written.
// So many are open at a time in all, and so many of one host; each may start
// when the one that far before it is finished, so the file whose turn it is
// never waits for a later one.
type ahead struct {
	service *Service
	files   []*pending
	started int
	wg      sync.WaitGroup
}

// pending is a file on its way.
type pending struct {
	export   Export
	before   *pending      // of the same host; to be finished first
	outcome  chan opened   // filled once
	finished chan struct{} // closed when it has been written or given up
}

// opened is what has become of a file ahead of its turn.
type opened struct {
	download *Download
	head     []byte // what has been read of the file
	whole    bool   // head is all of it
	err      error
}

func newAhead(service *Service, exports []Export) *ahead {
	a := &ahead{service: service, files: make([]*pending, len(exports))}
	byHost := make(map[string][]*pending)
	for i, export := range exports {
		file := &pending{
			export:   export,
			outcome:  make(chan opened, 1),
			finished: make(chan struct{}),
		}
		host := hostOf(export.ExportedURL)
		if earlier := byHost[host]; len(earlier) >= service.aheadOfHost {
			file.before = earlier[len(earlier)-service.aheadOfHost]
		}
		byHost[host] = append(byHost[host], file)
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

// start lets files begin up to the limit beyond the first n, which are
// finished.
func (a *ahead) start(ctx context.Context, n int) {
	for ; a.started < min(n+a.service.ahead, len(a.files)); a.started++ {
		file := a.files[a.started]
		a.wg.Go(func() { file.outcome <- a.open(ctx, file) })
	}
}

// close waits until nothing runs any more, which is soon when the context of
// start has ended, and closes the files that nobody has taken.
func (a *ahead) close() {
	a.wg.Wait()
	for _, file := range a.files[:a.started] {
		select {
		case late := <-file.outcome:
			if late.download != nil {
				late.download.Close()
			}
		default: // taken
		}
	}
}

// open opens a file when its host's turn has come, and reads its head.
func (a *ahead) open(ctx context.Context, file *pending) opened {
	if file.before != nil {
		select {
		case <-file.before.finished:
		case <-ctx.Done():
			return opened{err: openError(ctx, ctx.Err())}
		}
	}
	download, err := a.service.Open(ctx, file.export)
	if err != nil {
		return opened{err: err}
	}
	head, whole, err := readHead(download)
	if err != nil {
		download.Close()
		return opened{err: openError(ctx, err)}
	}
	return opened{download: download, head: head, whole: whole}
}

// readHead reads up to window bytes of a file and tells whether that is all.
func readHead(download *Download) (head []byte, whole bool, err error) {
	room := int64(window)
	if download.Size >= 0 && download.Size < window {
		room = download.Size + 1 // one more, to meet the end
	}
	head = make([]byte, room)
	n, err := readBlock(download.Body, head)
	if err == io.EOF {
		return head[:n], true, nil
	}
	return head[:n], false, err
}
