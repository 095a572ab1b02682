package revocation_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

const (
	simProcesses = 3
	simKeys      = 4                    // changed by one goroutine each; a further one by several
	simChanges   = 6                    // of each key
	simSkew      = 4 * time.Millisecond // between the clocks of any two processes
	simFlush     = 50 * time.Millisecond
)

// TestSimulation runs processes that share a database over a network that delays, loses,
// reorders and repeats what passes. Processes restart, clocks step, and the database is
// replaced by an earlier copy. The time is not real, and random choices follow from a seed.
//
// Once a revoking call has returned, no process accepts the raw key, its page token or what
// was issued to it, such as a download link. No valid one is rejected. Each accepted use
// is written once. A failure names its seed; -seed repeats it.
func TestSimulation(t *testing.T) {
	t.Parallel()
	const workers = 2
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if *seedFlag != 0 {
				simulate(t, *seedFlag)
				return
			}
			done := 0
			deadline, limited := t.Deadline()
			reserved := time.Until(deadline) / 2 // for other tests
			for seed := 1 + worker; seed <= uint64(testflag.Rounds(20, 100, 10_000)) && !t.Failed(); seed += workers {
				if limited && time.Until(deadline) < reserved {
					break
				}
				simulate(t, seed)
				done++
			}
			t.Logf("%d simulations", done)
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	var contended *revocations
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		defer w.stop()
		w.run()
		contended = w.contended
		w.checkUses()
		w.checkRestored()
		if m := seed % 20; m == 0 || m == 11 { // one for each worker: it takes the time of ten others
			w.checkEntryLifetime()
		}
	})
	contended.checkOrder(t)
}

// world is a database, and processes that use it.
type world struct {
	t         *testing.T
	is        *is.I
	seed      uint64
	processes []*process
	faulty    atomic.Bool  // the network is
	contended *revocations // of a key that several goroutines change

	mu       sync.Mutex
	database keys.Store
	hidden   map[keys.Digest]bool // changes of them are not logged
	uses     map[int64]int64      // accepted checks by the id of the key
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, is: is.NewRelaxed(t), seed: seed, database: memory.New().Keys(),
		hidden: make(map[keys.Digest]bool), uses: make(map[int64]int64),
	}
	for i := range simProcesses {
		p := &process{link: &link{world: w, Store: w.database, random: w.random(i)}, checks: make(chan bool, 4)}
		w.processes = append(w.processes, p)
		p.start(w)
	}
	return w
}

// random returns the random choices of one goroutine.
func (w *world) random(n int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(n))) }

func (w *world) stop() {
	w.faulty.Store(false)
	for _, p := range w.processes {
		p.stop(w)
	}
	time.Sleep(time.Second) // for responses that nobody waits for
}

// run changes and checks keys while all kinds of faults occur.
func (w *world) run() {
	w.faulty.Store(true)
	var tracked []*trackedKey
	var changing, other sync.WaitGroup
	for i := range simKeys {
		random := w.random(100 + i)
		c := changer{is: w.is, random: random, skew: simSkew, service: func() *keys.Service {
			return w.processes[random.IntN(simProcesses)].service.Load()
		}}
		k := new(trackedKey)
		tracked = append(tracked, k)
		changing.Go(func() { c.change(w.t.Context(), k, func(changes int) bool { return changes < simChanges }) })
	}
	w.contended = newRevocations(w.t, w.processes[0].service.Load())
	for i, p := range w.processes {
		changing.Go(func() { w.contended.change(p.service.Load, 3, w.random(400+i)) })
		random := w.random(500 + i)
		check := func(raw string) (keys.Key, error) { return p.check(w, raw, random) }
		changing.Go(func() { w.contended.check(check, 8, random) })
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var counts checkCounts
	for i := range 2 * simProcesses {
		random := w.random(200 + i)
		check := func(raw string) (keys.Key, error) {
			time.Sleep(time.Duration(random.Int64N(int64(4 * time.Millisecond))))
			return w.processes[i%simProcesses].check(w, raw, random)
		}
		other.Go(func() { counts.checkAll(ctx, tracked, check, random) })
	}
	other.Go(func() { w.disturb(ctx, w.random(300)) })
	changing.Wait()
	cancel()
	other.Wait()
	w.faulty.Store(false)
	w.is.Equal(counts.acceptedRevoked.Load(), int64(0))
	w.is.Equal(counts.rejectedValid.Load(), int64(0))
}

// disturb restarts processes, cuts them off and sets their clocks.
func (w *world) disturb(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(random.Int64N(int64(3 * shortLease))))
		p := w.processes[random.IntN(simProcesses)]
		switch random.IntN(4) {
		case 0:
			p.stop(w)
			p.start(w)
		case 1:
			p.link.cut(time.Duration(random.Int64N(int64(6 * shortLease))))
		default:
			p.offset.Store(random.Int64N(int64(simSkew)))
		}
	}
}

// checkUses compares what was accepted with what is written.
func (w *world) checkUses() {
	time.Sleep(10*shortLease + 2*simFlush) // one that began during faults may take so long
	for _, key := range must(w.database.List(w.t.Context(), keys.Filter{}, keys.Range{}))(w.t).Keys {
		w.is.Equal(key.UseCount, w.uses[key.ID])
	}
}

// checkRestored replaces the database by a copy from before some keys were changed.
func (w *world) checkRestored() {
	ctx, service := w.t.Context(), w.processes[0].service.Load()
	var list []keys.Issued
	for range 3 {
		list = append(list, issue(w.t, service))
	}
	copied := w.copy()
	w.is.NoErr(service.Delete(ctx, list[0].Key.ID))
	rotated := must(service.Rotate(ctx, list[1].Key.ID, 0))(w.t)
	created := issue(w.t, service)
	want := map[keys.RawKey]error{
		list[0].Raw: keys.ErrUnknown, list[1].Raw: keys.ErrUnknown, list[2].Raw: nil, rotated.Raw: nil, created.Raw: nil,
	}
	time.Sleep(2 * shortLease)
	w.checkAll(want)
	w.mu.Lock()
	w.database = copied
	w.mu.Unlock()
	time.Sleep(2 * shortLease)
	w.checkAll(map[keys.RawKey]error{
		list[0].Raw: nil, list[1].Raw: nil, list[2].Raw: nil, rotated.Raw: keys.ErrUnknown, created.Raw: keys.ErrUnknown,
	})
}

func (w *world) copy() keys.Store {
	page := must(w.database.List(w.t.Context(), keys.Filter{}, keys.Range{}))(w.t)
	copied := memory.New().Keys()
	for next := int64(1); len(page.Keys) > 0; next++ {
		key := page.Keys[0]
		added := must(copied.Insert(w.t.Context(), key))(w.t)
		if key.ID == next {
			page.Keys = page.Keys[1:]
			continue
		}
		must(copied.Delete(w.t.Context(), []int64{added.ID}, func([]keys.Key) error { return nil }))(w.t)
	}
	return copied
}

// checkAll checks raw keys in all processes.
func (w *world) checkAll(want map[keys.RawKey]error) {
	for _, p := range w.processes {
		for raw, err := range want {
			_, got := p.service.Load().Verify(w.t.Context(), string(raw))
			w.is.Equal(got, err)
		}
	}
}

// checkEntryLifetime changes a key without a row in the log.
func (w *world) checkEntryLifetime() {
	issued := issue(w.t, w.processes[0].service.Load())
	time.Sleep(2 * shortLease)
	w.checkAll(map[keys.RawKey]error{issued.Raw: nil})
	w.mu.Lock()
	w.hidden[issued.Key.Digest] = true
	w.mu.Unlock()
	must(w.database.Update(w.t.Context(), []int64{issued.Key.ID}, func(list []keys.Key) error {
		list[0].Active = false
		return nil
	}))(w.t)
	time.Sleep(time.Minute)
	w.checkAll(map[keys.RawKey]error{issued.Raw: keys.ErrInactive})
}

// process is a Service that is restarted.
type process struct {
	link    *link
	offset  atomic.Int64 // of its clock
	service atomic.Pointer[keys.Service]
	checks  chan bool // has an element for each check that runs
	cancel  context.CancelFunc
	done    chan error
}

func (p *process) start(w *world) {
	service, err := keys.NewService(p.link, &keys.Options{
		Lease: shortLease, FlushInterval: simFlush, CacheSize: 1 << 10, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(p.offset.Load())) },
	})
	w.is.NoErr(err)
	p.service.Store(service)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.done = make(chan error, 1)
	go func() { p.done <- service.Run(ctx) }()
	for range len(p.checks) {
		<-p.checks
	}
}

// stop ends the process as an orderly shutdown does: after its checks.
func (p *process) stop(w *world) {
	for range cap(p.checks) {
		p.checks <- true
	}
	p.link.steady.Store(true)
	p.cancel()
	w.is.NoErr(<-p.done)
	p.link.steady.Store(false)
}

// check checks a raw key, or page token, or what was issued to a raw key.
func (p *process) check(w *world, raw string, random *rand.Rand) (keys.Key, error) {
	p.checks <- true
	defer func() { <-p.checks }()
	service := p.service.Load()
	if strings.HasPrefix(raw, "cbk_") && random.IntN(2) == 0 { // as a link checks it
		key, err := service.VerifyDigest(w.t.Context(), sha256.Sum256([]byte(raw)))
		return key, cmp.Or(err, requireScope(&key))
	}
	key, err := service.VerifyFunc(w.t.Context(), raw, requireScope)
	if err != nil {
		return key, err
	}
	w.mu.Lock()
	w.uses[key.ID]++
	w.mu.Unlock()
	return key, nil
}

// link is the network between a process and the database.
type link struct {
	keys.Store // of calls that always pass
	world      *world
	steady     atomic.Bool // there are no faults

	mu     sync.Mutex
	random *rand.Rand
	until  time.Time // nothing passes before
}

var errLost = errors.New("connection lost")

// cut lets nothing pass for a time.
func (l *link) cut(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(d)
}

// passage is how a call and its response pass.
type passage struct {
	request, response   time.Duration
	noRequest, noAnswer bool
	twice               bool // the request arrives again
}

func (l *link) draw() (p passage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.request = time.Duration(l.random.Int64N(int64(200 * time.Microsecond)))
	p.response = time.Duration(l.random.Int64N(int64(200 * time.Microsecond)))
	if !l.world.faulty.Load() || l.steady.Load() {
		return p
	}
	switch l.random.IntN(20) {
	case 0:
		p.request = time.Duration(l.random.Int64N(int64(shortLease)))
	case 1, 2:
		p.response = time.Duration(l.random.Int64N(int64(3 * shortLease)))
	case 3:
		p.noRequest = true
	case 4:
		p.noAnswer = true
	case 5:
		p.twice = true
	}
	if wait := time.Until(l.until); wait > 0 {
		p.request += wait
	}
	return p
}

// send sends a call to the database. Repeated calls are read-only.
func send[T any](ctx context.Context, l *link, reads bool, call func(keys.Store) (T, error)) (T, error) {
	type response struct {
		result T
		err    error
	}
	p := l.draw()
	responses := make(chan response, 2)
	go func() {
		time.Sleep(p.request)
		if p.noRequest {
			responses <- response{err: errLost}
			return
		}
		l.world.mu.Lock()
		database := l.world.database
		l.world.mu.Unlock()
		var r response
		r.result, r.err = call(database)
		if p.twice && reads {
			time.Sleep(shortLease / 4)
			call(database)
		}
		time.Sleep(p.response)
		if p.noAnswer {
			r = response{err: errLost}
		}
		responses <- r
	}()
	select {
	case r := <-responses:
		return r.result, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (l *link) Shared() bool { return true }

func (l *link) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	return send(ctx, l, false, func(s keys.Store) (keys.Key, error) { return s.Insert(context.WithoutCancel(ctx), key) })
}

func (l *link) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return send(ctx, l, false, func(s keys.Store) ([]keys.Key, error) { return s.Update(context.WithoutCancel(ctx), ids, change) })
}

func (l *link) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) ([]keys.Key, error) {
	return send(ctx, l, false, func(s keys.Store) ([]keys.Key, error) { return s.Delete(context.WithoutCancel(ctx), ids, check) })
}

func (l *link) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return send(ctx, l, true, func(s keys.Store) (keys.Key, error) { return s.Find(context.WithoutCancel(ctx), digest) })
}

func (l *link) FindID(ctx context.Context, id int64) (keys.Key, error) {
	return send(ctx, l, true, func(s keys.Store) (keys.Key, error) { return s.FindID(context.WithoutCancel(ctx), id) })
}

// Touch does not wait, because synthetic time does not pass while a goroutine waits for a mutex. It
// loses no response, because uses of a lost one are written again.
func (l *link) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	if l.draw().noRequest {
		return errLost
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return l.world.database.Touch(context.WithoutCancel(ctx), uses, now)
}

// Changes sometimes returns that the log has been pruned.
func (l *link) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	changes, err := send(ctx, l, true, func(s keys.Store) (keys.Changes, error) { return s.Changes(context.WithoutCancel(ctx), since) })
	if err != nil {
		return changes, err
	}
	l.mu.Lock()
	pruned := l.world.faulty.Load() && l.random.IntN(20) == 0
	l.mu.Unlock()
	if pruned {
		return keys.Changes{Epoch: changes.Epoch}, nil
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	var logged []keys.Digest
	for _, digest := range changes.Digests {
		if !l.world.hidden[digest] {
			logged = append(logged, digest)
		}
	}
	changes.Digests = logged
	return changes, nil
}
