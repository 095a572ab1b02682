// Package prefetch opens files in the order in which they will be consumed,
// several in parallel, and reads the start of each before the consumer needs it.
//
// A [Queue] belongs to one goroutine, the consumer's. A worker uses only its task
// and fields of the queue that do not change. Only discard may be called
// by the workers of other queues.
package prefetch

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// Config bounds a [Queue]. All fields are required.
type Config struct {
	Files   int           // files in flight
	Budget  *Budget       // memory for prefixes, shared with other queues
	Timeout time.Duration // from opening a file to the end of its prefix
}

// idleTimeout is how long an upstream is assumed to keep a connection on which nothing
// is read.
const idleTimeout = 2 * time.Second

// Queue yields the files of a list of jobs in order. Its methods must be called
// by one goroutine.
//
// At most Files files are in flight: file i starts when the consumer is done
// with file i-Files. Each host admits its files in order, as many as its
// Concurrency allows. So the file being consumed never waits for a later one.
type Queue[F File] struct {
	config  Config
	ctx     context.Context
	cancel  context.CancelFunc
	member  *member // in the budget
	workers sync.WaitGroup

	tasks   []*task[F]
	started int // tasks with a worker
	next    int // task that Next returns
}

type task[F File] struct {
	job      Job[F]
	host     *host
	admitted <-chan struct{} // closed when the host has admitted the file
	leave    func()          // tells the host that the file is no longer open
	wanted   chan struct{}   // closed when the consumer waits for the file
	outcomes chan Outcome[F] // empty while a worker runs, and once the consumer has received the outcome

	outcome Outcome[F] // only for the consumer
}

// Outcome is the result of a job, or why there is none.
type Outcome[F File] struct {
	Result Result[F]
	Err    error
}

// errDiscarded means that a file was closed to free memory, and must be opened again.
var errDiscarded = errors.New("prefetch: discarded")

// New returns a Queue and starts to open its first files. When ctx ends, all
// files fail. The caller must call [Queue.Close].
func New[F File](ctx context.Context, config Config, jobs []Job[F]) *Queue[F] {
	q := &Queue[F]{config: config, tasks: make([]*task[F], len(jobs))}
	q.ctx, q.cancel = context.WithCancel(ctx)
	q.member = config.Budget.join()
	hosts, all := make(map[string]*host), newBreaker(2*config.Files, nil)
	for i, job := range jobs {
		h := hosts[job.Host]
		if h == nil {
			// It fails after two rounds of timeouts: the second one may have half as many files.
			h = &host{breaker: newBreaker(job.Concurrency()*3/2, all), concurrency: job.Concurrency}
			hosts[job.Host] = h
		}
		q.tasks[i] = &task[F]{
			job:      job,
			host:     h,
			admitted: h.enter(),
			leave:    sync.OnceFunc(h.leave),
			wanted:   make(chan struct{}),
			outcomes: make(chan Outcome[F], 1),
		}
	}
	q.start()
	return q
}

func (q *Queue[F]) start() {
	for ; q.started < min(q.next+q.config.Files, len(q.tasks)); q.started++ {
		q.startWorker(q.tasks[q.started])
	}
}

func (q *Queue[F]) startWorker(t *task[F]) {
	q.workers.Go(func() {
		o := q.work(t)
		if o.Result.Complete || o.Err != nil {
			t.leave()
		} else {
			t.host.admit() // it may allow more files than before
		}
		t.outcomes <- o
		if o.Err == nil {
			q.member.addReady(t.discard)
		}
	})
}

// restart opens the next files again that were discarded, as many as may come from
// one host.
func (q *Queue[F]) restart() {
	concurrency := q.tasks[q.next].host.concurrency()
	for _, t := range q.tasks[q.next:min(q.next+concurrency, q.started)] {
		select {
		case o := <-t.outcomes:
			if o.Err == errDiscarded {
				q.startWorker(t)
			} else {
				t.outcomes <- o
			}
		default:
		}
	}
}

// discard closes a file that the consumer has not received. It may be called by any
// goroutine.
func (t *task[F]) discard() {
	select {
	case o := <-t.outcomes:
		defer func() {
			recover() // Close may panic
			t.outcomes <- Outcome[F]{Err: errDiscarded}
		}()
		o.Result.close()
	default:
	}
}

// Next closes the previous file, waits for the next one and returns it, or the
// error with which it failed. The file is valid until Next or Close is called. If
// Next waits for more than 50 ms, it calls flush once, unless that is nil. Next must not
// be called more often than there are jobs.
//
// Next checks that an incomplete file can still be read: it reads more of it,
// and reopens it if that fails or if the upstream may have closed the idle
// connection.
func (q *Queue[F]) Next(flush func() error) (Result[F], error) {
	q.member.setConsuming(time.Time{})
	defer func() { q.member.setConsuming(time.Now()) }()
	if q.next > 0 {
		previous := q.tasks[q.next-1]
		previous.outcome.Result.close()
		previous.outcome = Outcome[F]{} // frees the prefix
		previous.leave()
	}
	q.restart()
	q.start()
	t := q.tasks[q.next]
	q.next++
	q.wait(t, flush)
	if r := &t.outcome.Result; t.outcome.Err == nil && !r.Complete {
		// After an idle timeout a successful read is no proof that the rest can be read: the
		// data may have been buffered before the upstream closed the connection.
		mayBeClosed := !r.File.CanIdle() && time.Since(r.readAt) > idleTimeout
		if mayBeClosed || r.readMore() != nil {
			r.close()
			t.outcome = q.work(t)
		}
	}
	return t.outcome.Result, t.outcome.Err
}

func (q *Queue[F]) wait(t *task[F], flush func() error) {
	close(t.wanted)
	select {
	case t.outcome = <-t.outcomes:
	case <-time.After(50 * time.Millisecond):
		if flush != nil {
			flush() // if it fails, so does the next write
		}
		t.outcome = <-t.outcomes
	}
	if t.outcome.Err == errDiscarded {
		t.outcome = q.work(t)
	}
}

// Rest returns the outcomes of the jobs that Next has not returned yet. It reports false
// if some have not started, or do not arrive within the timeout. The files must not be
// read.
func (q *Queue[F]) Rest(timeout time.Duration) (rest []Outcome[F], ok bool) {
	if q.started < len(q.tasks) {
		return nil, false
	}
	late := time.After(timeout)
	for _, t := range q.tasks[q.next:] {
		select {
		case o := <-t.outcomes:
			t.outcomes <- o
			if o.Err == errDiscarded {
				return nil, false
			}
			rest = append(rest, o)
		case <-late:
			return nil, false
		}
	}
	return rest, true
}

// Close closes all files and returns when no worker runs.
func (q *Queue[F]) Close() {
	q.cancel()
	q.workers.Wait()
	q.member.leave()
	if q.next > 0 {
		defer q.tasks[q.next-1].outcome.Result.close() // even if another panics
	}
	for _, t := range q.tasks[q.next:q.started] {
		defer t.discard()
	}
}

// work waits for a connection to the host and for memory, then reads.
func (q *Queue[F]) work(t *task[F]) Outcome[F] {
	select {
	case <-t.admitted:
	case <-q.ctx.Done():
		return Outcome[F]{Err: q.ctx.Err()}
	}
	memory, err := q.config.Budget.acquire(q.ctx, t.wanted)
	if err != nil {
		return Outcome[F]{Err: err}
	}
	result, err := q.read(t, memory)
	return Outcome[F]{result, err}
}

// read opens a file and reads its prefix. If it returns an error, it has released the
// memory.
func (q *Queue[F]) read(t *task[F], memory *allocation) (result Result[F], err error) {
	result.release = memory.release
	defer func() {
		if err != nil {
			defer func() { recover() }() // Close may panic too
			result.close()
		}
	}()
	defer recoverToError(&err)
	start := time.Now()
	err = t.host.breaker.call(q.config.Timeout, func() (err error) {
		result.File, err = t.job.Open(q.ctx)
		return err
	})
	if err != nil {
		return result, err
	}
	file := result.File
	result.open = true
	size := prefixSize(file.Length())
	if size > memory.bytes {
		memory.grow(size - memory.bytes)
	} else {
		memory.shrink(size)
	}
	buffer, free := prefixBuffer(min(size, max(memory.bytes, smallPrefix)))
	result.release = func() { free(); memory.release() }
	n, err := ReadUntil(file, buffer, file.Length(), start.Add(q.config.Timeout))
	switch {
	case err == io.EOF:
		result.Complete = true
		result.CRC = crc32.ChecksumIEEE(buffer[:n]) // here workers compute it in parallel
		result.closeFile()
	case err != nil:
		return result, err
	}
	result.Prefix, result.readAt = buffer[:n], time.Now()
	return result, nil
}
