package prefetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeFile is a file whose reads are those of a Reader.
type fakeFile struct {
	io.Reader
	length  int64
	canIdle bool
	broken  bool          // Close panics
	closed  *atomic.Int64 // counts closed files
}

func (f *fakeFile) Close() error {
	f.closed.Add(1)
	if f.broken {
		panic("bug in Close")
	}
	return nil
}

func (f *fakeFile) Length() int64 { return f.length }
func (f *fakeFile) CanIdle() bool { return f.canIdle }

// fakeUpstream counts the files that it opens. Each host allows perHost at a time, 6 if
// zero.
type fakeUpstream struct {
	opened, closed, perHost atomic.Int64
}

// file returns a Job for a file that arrives in pieces after a delay.
func (u *fakeUpstream) file(host, content string, delay time.Duration) Job[*fakeFile] {
	return u.job(host, func(ctx context.Context) (*fakeFile, error) {
		select {
		case <-time.After(delay):
			return &fakeFile{Reader: iotest.HalfReader(strings.NewReader(content)), length: int64(len(content))}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

func (u *fakeUpstream) job(host string, open func(ctx context.Context) (*fakeFile, error)) Job[*fakeFile] {
	concurrency := func() int { return cmp.Or(int(u.perHost.Load()), 6) }
	return Job[*fakeFile]{Host: host, Concurrency: concurrency, Open: func(ctx context.Context) (*fakeFile, error) {
		f, err := open(ctx)
		if err == nil {
			u.opened.Add(1)
			f.closed = &u.closed
		}
		return f, err
	}}
}

func testConfig() Config {
	return Config{Files: 16, Budget: NewBudget(64 << 20), Timeout: 20 * time.Second}
}

// bubble runs a test with an upstream on a simulated clock.
func bubble(t *testing.T, test func(t *testing.T, is *is.I, u *fakeUpstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, is.New(t), new(fakeUpstream)) })
}

// next returns the next file of a queue, which must not fail.
func next(is *is.I, q *Queue[*fakeFile]) Result[*fakeFile] {
	is.Helper()
	file, err := q.Next(nil)
	is.NoErr(err)
	return file
}

func contentOf(is *is.I, file Result[*fakeFile]) []byte {
	is.Helper()
	content, err := io.ReadAll(file.Content())
	is.NoErr(err)
	return content
}

func TestQueue_YieldsFilesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		errGone := errors.New("gone")
		var jobs []Job[*fakeFile]
		for i := range 100 {
			jobs = append(jobs, u.file(fmt.Sprint(i%5), fmt.Sprint("content ", i), time.Duration(100-i)*time.Millisecond))
		}
		jobs[50] = u.job("5", func(context.Context) (*fakeFile, error) { return nil, errGone })
		jobs[51] = u.file("5", strings.Repeat("x", PrefixSize), 0)
		jobs[52] = u.file("5", strings.Repeat("x", PrefixSize+1), 0)
		q := New(t.Context(), testConfig(), jobs)
		for i := range jobs {
			file, err := q.Next(nil)
			if i == 50 {
				is.Equal(err, errGone)
				continue
			}
			is.NoErr(err)
			is.Equal(file.Complete, i != 52)
			content := contentOf(is, file)
			switch {
			case i == 51 || i == 52:
				is.Equal(len(content), PrefixSize+i-51)
			default:
				is.Equal(string(content), fmt.Sprint("content ", i))
				is.Equal(file.CRC, crc32.ChecksumIEEE(content))
			}
		}
		q.Close()
		is.Equal(u.opened.Load(), int64(99))
		is.Equal(u.closed.Load(), int64(99))
	})
}

func TestQueue_LimitsFilesInFlight(t *testing.T) {
	for hosts, want := range map[int][2]int64{ // most files in flight overall, and on one host
		1: {3, 3},
		2: {6, 3},
		8: {8, 1},
	} {
		t.Run(fmt.Sprintf("%d hosts", hosts), func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
				inFlight, most := make([]atomic.Int64, hosts+1), make([]atomic.Int64, hosts+1) // by host; the last is overall
				var jobs []Job[*fakeFile]
				for i := range 48 {
					jobs = append(jobs, u.job(fmt.Sprint(i%hosts), func(context.Context) (*fakeFile, error) {
						for _, n := range []int{i % hosts, hosts} {
							most[n].Store(max(most[n].Load(), inFlight[n].Add(1)))
						}
						time.Sleep(time.Second)
						inFlight[i%hosts].Add(-1)
						inFlight[hosts].Add(-1)
						return &fakeFile{Reader: strings.NewReader("x"), length: 1}, nil
					}))
				}
				config := testConfig()
				config.Files = 8
				u.perHost.Store(3)
				q := New(t.Context(), config, jobs)
				start := time.Now()
				for range jobs {
					next(is, q)
				}
				q.Close()
				is.Equal(most[hosts].Load(), want[0])
				is.Equal(most[0].Load(), want[1])
				is.Equal(time.Since(start), time.Duration(48/want[0])*time.Second)
			})
		})
	}
}

func TestQueue_CompleteFilesReleaseTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		jobs := slices.Repeat([]Job[*fakeFile]{u.file("a", "small", 0)}, 12)
		q := New(t.Context(), testConfig(), jobs)
		synctest.Wait()
		is.Equal(u.opened.Load(), int64(12)) // 6 at a time
		is.Equal(u.closed.Load(), int64(12))
		q.Close()
		is.Equal(u.closed.Load(), int64(12))
	})
}

// TestQueue_FollowsConcurrency has a host that allows more files after the first, and
// then fewer.
func TestQueue_FollowsConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		u.perHost.Store(1)
		jobs := slices.Repeat([]Job[*fakeFile]{u.file("a", strings.Repeat("x", 2*PrefixSize), time.Second)}, 40)
		q := New(t.Context(), testConfig(), jobs)
		defer q.Close()
		u.perHost.Store(10)
		time.Sleep(1500 * time.Millisecond)
		is.Equal(u.opened.Load(), int64(1))
		time.Sleep(time.Second)
		is.Equal(u.opened.Load(), int64(10))
		u.perHost.Store(2)
		for i := range 12 {
			next(is, q)
			time.Sleep(1500 * time.Millisecond)
			is.Equal(u.opened.Load()-u.closed.Load(), int64(max(2, 10-i)))
		}
	})
}

// A file larger than its prefix holds its connection until it is consumed.
func TestQueue_LargeFilesHoldTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		large := strings.Repeat("x", 2*PrefixSize)
		jobs := []Job[*fakeFile]{u.file("a", large, 0), u.file("a", large, 0), u.file("a", "small", 0), u.file("b", "small", 0)}
		u.perHost.Store(2)
		q := New(t.Context(), testConfig(), jobs)
		synctest.Wait()
		is.Equal(u.opened.Load(), int64(3))
		for range 2 {
			next(is, q)
		}
		synctest.Wait()
		is.Equal(u.opened.Load(), int64(4))
		q.Close()
		is.Equal(u.closed.Load(), int64(4))
	})
}

func TestQueue_BudgetIsShared(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		config := testConfig()
		config.Budget = NewBudget(2*PrefixSize + 8*smallPrefix)
		left := config.Budget.left
		var jobs []Job[*fakeFile]
		content := strings.Repeat("x", PrefixSize)
		for i := range 40 {
			jobs = append(jobs, u.file(fmt.Sprint(i), content, 0))
		}
		first, second := New(t.Context(), config, jobs), New(t.Context(), config, jobs)
		synctest.Wait()
		is.True(u.opened.Load() < 32) // the others wait for memory
		is.True(config.Budget.left >= 0)
		for _, q := range []*Queue[*fakeFile]{first, second} {
			for range jobs { // one file beyond the budget keeps each queue going
				got := contentOf(is, next(is, q))
				is.True(string(got) == content)
			}
			q.Close()
		}
		is.Equal(config.Budget.left, left)
		is.Equal(u.closed.Load(), u.opened.Load())
	})
}

// Files of unknown size have the memory for a small prefix while they are opened, so
// that the latency of all files of many queues passes at a time.
func TestQueue_OpensFilesOfManyQueuesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		config := testConfig()
		config.Budget = NewBudget(40 << 20)
		var jobs []Job[*fakeFile]
		for i := range config.Files {
			jobs = append(jobs, u.file(fmt.Sprint(i), strings.Repeat("x", 60_000), time.Second))
		}
		var queues []*Queue[*fakeFile]
		for range 32 {
			queues = append(queues, New(t.Context(), config, jobs))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		is.Equal(u.closed.Load(), int64(32*config.Files)) // all are prefetched
		is.Equal(config.Budget.used(), 32*config.Files*60_001)
		for _, q := range queues {
			q.Close()
		}
		is.Equal(config.Budget.used(), 0)
	})
}

func TestBudget_CountsWhatAFileNeeds(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		config := testConfig()
		large := strings.Repeat("x", PrefixSize+1)
		jobs := []Job[*fakeFile]{u.file("a", large, time.Second), u.file("a", large, 0), u.file("a", "x", time.Hour)}
		q := New(t.Context(), config, jobs)
		next(is, q)                                              // waits a second
		is.Equal(config.Budget.used(), 2*PrefixSize+smallPrefix) // the last one is not open yet
		for range 2 {                                            // one is ready, one is not
			next(is, q)
		}
		q.Close()
		is.Equal(config.Budget.used(), 0)
	})
}

// TestQueue_StalledQueuesDoNotSlowOthers compares the time of a queue beside many
// whose consumers have stopped with its time alone.
func TestQueue_StalledQueuesDoNotSlowOthers(t *testing.T) {
	for name, size := range map[string]int{"files of 100 KB": 100_000, "files of 1 MiB": PrefixSize, "larger files": PrefixSize + 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
				config := testConfig()
				content := strings.Repeat("x", size)
				var jobs []Job[*fakeFile]
				for i := range 20 {
					jobs = append(jobs, u.file(fmt.Sprint(i), content, 50*time.Millisecond))
				}
				consume := func(q *Queue[*fakeFile]) time.Duration {
					start := time.Now()
					for range jobs {
						got := contentOf(is, next(is, q))
						is.Equal(len(got), size)
					}
					return time.Since(start)
				}
				q := New(t.Context(), config, jobs)
				alone := consume(q)
				q.Close()

				var stalled []*Queue[*fakeFile]
				for range 100 {
					q := New(t.Context(), config, jobs)
					next(is, q)
					stalled = append(stalled, q)
				}
				time.Sleep(2 * stallTime)
				q = New(t.Context(), config, jobs)
				beside := consume(q)
				q.Close()
				t.Logf("alone %v, beside stalled queues %v", alone, beside)
				is.True(alone*10 >= beside*8)
				is.True(config.Budget.left >= 0)

				for range jobs[1:] { // a consumer that goes on gets all files
					got := contentOf(is, next(is, stalled[0]))
					is.Equal(len(got), size)
				}
				for _, q := range stalled {
					q.Close()
				}
				is.Equal(u.closed.Load(), u.opened.Load())
				is.Equal(config.Budget.left, 64<<20)
			})
		})
	}
}

// A file that was discarded keeps its connection for when it is opened again.
func TestQueue_DiscardedFilesStayWithinConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		config := testConfig()
		config.Budget = NewBudget(8 * PrefixSize)
		u.perHost.Store(3)
		jobs := slices.Repeat([]Job[*fakeFile]{u.file("a", strings.Repeat("x", 2*PrefixSize), 0)}, 12)
		q := New(t.Context(), config, jobs)
		next(is, q)
		time.Sleep(2 * stallTime)
		for memory := (&allocation{budget: config.Budget}); u.closed.Load() == 0; { // another queue takes it
			memory.grow(PrefixSize)
			defer memory.release()
		}
		for range jobs[1:] {
			next(is, q)
			synctest.Wait()
			is.True(u.opened.Load()-u.closed.Load() <= 3)
		}
		q.Close()
	})
}

func TestQueue_StopsAfterRepeatedTimeouts(t *testing.T) {
	for name, hosts := range map[string]int{"one host": 1, "many hosts": 200} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
				var tried atomic.Int64
				var jobs []Job[*fakeFile]
				for i := range 200 {
					jobs = append(jobs, u.job(fmt.Sprint(i%hosts), func(ctx context.Context) (*fakeFile, error) {
						tried.Add(1)
						time.Sleep(20 * time.Second)
						return nil, context.DeadlineExceeded
					}))
				}
				if hosts == 1 {
					jobs = append(jobs, u.file("another", "ok", 0))
				}
				q := New(t.Context(), testConfig(), jobs)
				defer q.Close()
				for range 200 {
					_, err := q.Next(nil)
					is.True(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnresponsive))
				}
				is.True(tried.Load() < 60)
				if hosts == 1 {
					next(is, q) // another host is not affected
				}
			})
		})
	}
}

// TestQueue_ErrorsDoNotStopIt has an upstream that reports, at once or after a while, that files
// are gone.
func TestQueue_ErrorsDoNotStopIt(t *testing.T) {
	for _, wait := range []time.Duration{0, 1100 * time.Millisecond} {
		bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
			errGone := errors.New("gone")
			gone := u.job("a", func(context.Context) (*fakeFile, error) {
				time.Sleep(wait)
				return nil, errGone
			})
			jobs := slices.Repeat([]Job[*fakeFile]{gone}, 100)
			q := New(t.Context(), testConfig(), append(jobs, u.file("a", "ok", 0)))
			defer q.Close()
			for range jobs {
				_, err := q.Next(nil)
				is.Equal(err, errGone)
			}
			next(is, q)
		})
	}
}

// trickle yields a byte per second and never ends.
type trickle struct{}

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	p[0] = 'x'
	return 1, nil
}

func TestQueue_SlowFileIsYieldedAfterTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		q := New(t.Context(), testConfig(), []Job[*fakeFile]{u.job("a", func(context.Context) (*fakeFile, error) {
			return &fakeFile{Reader: trickle{}, length: -1}, nil
		})})
		start, waits := time.Now(), 0
		file, err := q.Next(func() error { waits++; return nil })
		is.NoErr(err)
		is.True(!file.Complete)
		is.Equal(len(file.Prefix), 20)
		is.Equal(waits, 1)
		is.True(time.Since(start) < 25*time.Second)
		q.Close()
	})
}

// A file that fails before its turn is opened again. A buffered read succeeds on a connection
// that the upstream has closed, so one that cannot be resumed is also opened again after a
// long wait.
func TestQueue_ReopensIdleFile(t *testing.T) {
	content := strings.Repeat("canvasback ", 300_000)
	for name, c := range map[string]struct {
		canIdle bool
		wait    time.Duration
		cut     int64 // when it is opened first
		want    int64 // times opened
	}{
		"long wait":               {false, 3 * time.Second, 2 << 20, 2},
		"long wait, can be idle":  {true, 3 * time.Second, 0, 1},
		"short wait":              {false, time.Second, 0, 1},
		"short wait, can be idle": {true, time.Second, 0, 1},
		"failure":                 {true, 0, PrefixSize + 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
				opened := 0
				waits := u.job("a", func(context.Context) (*fakeFile, error) {
					var body io.Reader = strings.NewReader(content)
					if opened++; opened == 1 && c.want == 2 {
						body = io.MultiReader(io.LimitReader(body, c.cut), iotest.ErrReader(io.ErrUnexpectedEOF))
					}
					return &fakeFile{Reader: body, length: int64(len(content)), canIdle: c.canIdle}, nil
				})
				q := New(t.Context(), testConfig(), []Job[*fakeFile]{u.file("a", "first", 0), waits})
				next(is, q)
				time.Sleep(c.wait)
				got := contentOf(is, next(is, q))
				is.True(string(got) == content)
				q.Close()
				is.Equal(u.opened.Load(), 1+c.want)
				is.Equal(u.closed.Load(), 1+c.want)
			})
		})
	}
}

func TestQueue_TruncatedFileFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var u fakeUpstream
	q := New(t.Context(), testConfig(), []Job[*fakeFile]{u.job("a", func(context.Context) (*fakeFile, error) {
		return &fakeFile{Reader: strings.NewReader("half"), length: 8}, nil
	})})
	_, err := q.Next(nil)
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	q.Close()
	is.Equal(u.closed.Load(), int64(1))
}

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("bug in Read") }

func TestQueue_PanicFailsTheFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var u fakeUpstream
	q := New(t.Context(), testConfig(), []Job[*fakeFile]{
		u.job("a", func(context.Context) (*fakeFile, error) { panic("bug in Open") }),
		u.job("a", func(context.Context) (*fakeFile, error) { return &fakeFile{Reader: panickingReader{}, length: 5}, nil }),
		u.job("a", func(context.Context) (*fakeFile, error) {
			return &fakeFile{Reader: panickingReader{}, length: 5, broken: true}, nil
		}),
		u.file("a", "ok", 0),
	})
	for _, want := range []string{"bug in Open", "bug in Read", "bug in Read"} {
		_, err := q.Next(nil)
		is.True(err != nil && strings.Contains(err.Error(), want))
	}
	next(is, q)
	q.Close()
	is.Equal(u.opened.Load(), int64(3))
	is.Equal(u.closed.Load(), int64(3))
}

func TestQueue_Rest(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		jobs := []Job[*fakeFile]{
			u.file("a", "first", 0), u.file("a", "second", 100*time.Millisecond),
			u.job("a", func(context.Context) (*fakeFile, error) { return nil, io.ErrNoProgress }),
		}
		q := New(t.Context(), testConfig(), jobs)
		defer q.Close()
		next(is, q)
		_, ok := q.Rest(50 * time.Millisecond)
		is.True(!ok)
		rest, ok := q.Rest(100 * time.Millisecond)
		is.True(ok)
		is.Equal(len(rest), 2)
		is.Equal(rest[1], Outcome[*fakeFile]{Result: rest[1].Result, Err: io.ErrNoProgress})
		is.Equal(string(rest[0].Result.Prefix), "second")
		is.NoErr(rest[0].Err)
		file := next(is, q) // they are still to come
		is.Equal(string(file.Prefix), "second")

		config := testConfig()
		config.Files = 2
		more := New(t.Context(), config, jobs)
		defer more.Close()
		start := time.Now()
		_, ok = more.Rest(time.Minute)
		is.True(!ok)
		is.Equal(time.Since(start), time.Duration(0)) // the third has not started
	})
}

func TestQueue_CloseEndsWorkers(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		late := slices.Repeat([]Job[*fakeFile]{u.file("a", "late", time.Hour)}, 30)
		jobs := append([]Job[*fakeFile]{u.file("a", "ok", 0)}, late...)
		start := time.Now()
		q := New(t.Context(), testConfig(), jobs)
		next(is, q)
		q.Close()
		is.Equal(time.Since(start), time.Duration(0))
		is.Equal(u.opened.Load(), u.closed.Load())
	})
}

func TestQueue_ContextEndsAllFiles(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		ctx, cancel := context.WithCancel(t.Context())
		jobs := slices.Repeat([]Job[*fakeFile]{u.file("a", "late", time.Hour)}, 30)
		q := New(ctx, testConfig(), jobs)
		defer q.Close()
		time.AfterFunc(time.Second, cancel)
		for range jobs {
			_, err := q.Next(nil)
			is.True(errors.Is(err, context.Canceled) || errors.Is(err, ErrUnresponsive))
		}
	})
}

// TestQueue_OneTimeoutDoesNotStopIt has a host that serves one file at a time.
func TestQueue_OneTimeoutDoesNotStopIt(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, u *fakeUpstream) {
		jobs := []Job[*fakeFile]{u.job("host", func(context.Context) (*fakeFile, error) {
			time.Sleep(20 * time.Second)
			return nil, context.DeadlineExceeded
		}), u.file("host", "ok", 0)}
		for i := range jobs {
			jobs[i].Concurrency = func() int { return 1 }
		}
		q := New(t.Context(), testConfig(), jobs)
		defer q.Close()
		_, err := q.Next(nil)
		is.True(err != nil)
		next(is, q)
	})
}

func (b *Budget) used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.max - b.left
}

func TestBudget_LastQuarterIsForSmallPrefixes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := NewBudget(8 * smallPrefix)
	is.True((&allocation{budget: b}).grow(6 * smallPrefix))
	small := &allocation{budget: b}
	is.True(!small.grow(smallPrefix + 1))
	is.True(small.grow(smallPrefix))
	is.True(!small.grow(1))
	is.True((&allocation{budget: b}).grow(smallPrefix))
	is.True(!(&allocation{budget: b}).grow(1))
}

func TestBudget_ForgetsQueuesThatLeave(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := NewBudget(1)
	first, second := b.join(), b.join()
	is.Equal(len(b.members), 2)
	first.leave()
	second.leave()
	is.Equal(len(b.members), 0)
}

// TestPrefixSize reserves a byte for an empty file, which shows its end.
func TestPrefixSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for length, want := range map[int64]int{-1: PrefixSize, 0: 1, 1: 2, PrefixSize/2 - 1: PrefixSize / 2, PrefixSize / 2: PrefixSize} {
		is.Equal(prefixSize(length), want)
	}
}
