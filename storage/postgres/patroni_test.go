//go:build linux

package postgres_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

// TestPatroni_FailoversLoseNothing causes failovers of a cluster that Patroni manages. It
// revokes keys after each, which no process then accepts, and writes records of every
// kind meanwhile, of which none that was acknowledged is lost. CANVASBACK_TEST_PATRONI
// is the number of failovers, which take about 40 seconds each:
//
//	CANVASBACK_TEST_PATRONI=50 go test ./storage/postgres -run Patroni -v -timeout 1h
func TestPatroni_FailoversLoseNothing(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("CANVASBACK_TEST_PATRONI"))
	if rounds == 0 {
		t.Skip("set CANVASBACK_TEST_PATRONI to the number of failovers")
	}
	is := is.New(t)
	cluster := startPatroni(t)
	cluster.waitHealthy()
	all := connectToPrimary(t, cluster.dsn(cluster.nodes...))
	migrate(t, all)
	admin := startKeys(t, all, postgres.FenceAuto)
	both := &checker{t: t, name: "pool with all hosts", service: startKeys(t, connectToPrimary(t, cluster.dsn(cluster.nodes...)), postgres.FenceAuto)}

	faults := []struct {
		name       string
		begin, end func(*patroniNode)
	}{
		{"agent frozen",
			func(n *patroniNode) { n.signalAgent(syscall.SIGSTOP) },
			func(n *patroniNode) { n.signalAgent(syscall.SIGCONT) }},
		{"agent and server killed",
			(*patroniNode).kill,
			(*patroniNode).start},
		{"node frozen",
			func(n *patroniNode) { n.signalAgent(syscall.SIGSTOP); n.signalServer(syscall.SIGSTOP) },
			func(n *patroniNode) { n.signalServer(syscall.SIGCONT); n.signalAgent(syscall.SIGCONT) }},
	}
	const perRound = 6
	var (
		longest                          time.Duration
		failovers, revocations           int
		writes, failedWrites             int
		afterRevocation, stale, unfenced int64
	)
	for round := range rounds {
		fault := faults[round%len(faults)]
		old := cluster.waitHealthy()
		t.Run(strconv.Itoa(round)+" "+fault.name, func(t *testing.T) {
			list := createKeys(t, admin, perRound)
			same := &checker{t: t, name: "pool with the old primary", service: startKeys(t, connect(t, cluster.dsn(old)), postgres.FenceAuto)}
			control := &checker{t: t, name: "never fenced", service: startKeys(t, connect(t, cluster.dsn(old)), postgres.FenceNever)}
			current := &checker{t: t, name: both.name, service: both.service}
			checkers := []*checker{current, same, control}
			ctx, stop := context.WithCancel(t.Context())
			var checking sync.WaitGroup
			for _, c := range checkers {
				for _, k := range list {
					c.untilAccepted(k)
				}
				checking.Go(func() { c.checkAll(ctx, list) })
			}

			writers := []*writer{newWriter(t, connectToPrimary(t, cluster.dsn(cluster.nodes...))), newWriter(t, connect(t, cluster.dsn(old)))}
			for _, w := range writers {
				checking.Go(func() { w.run(ctx) })
			}
			time.Sleep(time.Second) // of writes before the fault

			fault.begin(old)
			began := time.Now()
			cluster.waitFailover(old)
			promoted := time.Now()
			created := createKeys(t, admin, 1)[0]
			current.untilAccepted(created) // from the new primary, as the old one cannot commit
			unavailable, found := time.Since(began), time.Since(promoted)
			revokeAll(t, admin, list[:perRound/2], checkers)
			fault.end(old)
			revokeAll(t, admin, list[perRound/2:], checkers)
			next := cluster.waitHealthy()
			if next == old {
				t.Log("no failover")
			} else {
				failovers++
			}
			stop()
			checking.Wait()
			for _, c := range checkers {
				c.log()
				if c != control {
					is.Equal(c.stale.Load(), int64(0))
					afterRevocation += c.afterRevocation.Load()
					stale += c.stale.Load()
				}
			}
			acknowledged := newWriter(t, connectToPrimary(t, cluster.dsn(cluster.nodes...))).verify(writers...)
			writes += acknowledged
			for _, w := range writers {
				failedWrites += w.failed
			}
			unfenced += control.stale.Load()
			revocations += perRound
			longest = max(longest, unavailable)
			t.Logf("%s -> %s, unavailable for %v, for %v of them after the promotion",
				old.name, next.name, unavailable.Round(time.Millisecond), found.Round(time.Millisecond))
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d writes were acknowledged, and found; %d failed", writes, failedWrites)
	t.Logf("%d failovers, %d revocations, %d checks after revocation, %d of them stale (%d by processes without a fence), unavailable for %v at most",
		failovers, revocations, afterRevocation, stale, unfenced, longest.Round(time.Millisecond))
}

// writer writes records of every kind, and keeps how to find each write that was
// acknowledged. It is not safe for concurrent use, except that several may run.
type writer struct {
	t       testing.TB
	keys    *keys.Service
	symbols *symbols.Service
	exports *exports.Service
	links   exports.LinkStore

	acknowledged map[string][]func(context.Context, *writer) error // by kind
	failed       int
}

func newWriter(t testing.TB, pool *pgxpool.Pool) *writer {
	db := must(postgres.New(pool, nil))(t)
	return &writer{
		t:            t,
		keys:         startKeys(t, pool, postgres.FenceAuto),
		symbols:      must(symbols.NewService(db.Symbols(), nil))(t),
		exports:      must(exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{anyURL{}}}))(t),
		links:        db.Exports().(exports.LinkStore),
		acknowledged: make(map[string][]func(context.Context, *writer) error),
	}
}

// anyURL is an Opener for all URLs, of which none is opened.
type anyURL struct{ exports.Opener }

func (anyURL) Serves(*url.URL) bool { return true }
func (anyURL) Check(*url.URL) error { return nil }

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.writeAll()
		time.Sleep(20 * time.Millisecond)
	}
}

// try calls a write for as long as the handler of the routes would. If it succeeds, found
// must succeed later.
func (w *writer) try(kind string, write func(context.Context) error, found func(context.Context, *writer) error) bool {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	if err := write(ctx); err != nil {
		w.failed++
		return false
	}
	w.acknowledged[kind] = append(w.acknowledged[kind], found)
	return true
}

func (w *writer) writeAll() {
	name := rand.Text()
	var issued keys.Issued
	if w.try("key created", func(ctx context.Context) (err error) {
		issued, err = w.keys.Create(ctx, keys.Fields{Name: &name})
		return err
	}, func(ctx context.Context, w *writer) error { return errorOf(w.keys.Get(ctx, issued.Key.ID)) }) {
		rotated := issued
		w.try("key rotated", func(ctx context.Context) (err error) {
			rotated, err = w.keys.Rotate(ctx, issued.Key.ID, 0)
			return err
		}, func(ctx context.Context, w *writer) error { return errorOf(w.keys.Verify(ctx, string(rotated.Raw))) })
	}
	w.writeSymbols(name)
	w.writeExports(name)
	w.writeLink(name)
}

func (w *writer) writeSymbols(name string) {
	var folder symbols.Folder
	if !w.try("folder created", func(ctx context.Context) (err error) {
		folder, err = w.symbols.CreateFolder(ctx, name)
		return err
	}, func(ctx context.Context, w *writer) error { return errorOf(w.symbols.GetFolder(ctx, folder.ID)) }) {
		return
	}
	created := make([]symbols.Symbol, 3)
	for i := range created {
		if !w.try("symbol created", func(ctx context.Context) (err error) {
			created[i], err = w.symbols.CreateSymbol(ctx, folder.ID, symbols.NewSymbol{Name: name, Type: "text/plain", Data: "created"})
			return err
		}, func(ctx context.Context, w *writer) error {
			if i == 2 { // may be deleted
				return nil
			}
			return errorOf(w.symbols.GetSymbol(ctx, created[i].ID))
		}) {
			return
		}
	}
	w.try("symbol updated", func(ctx context.Context) error {
		_, err := w.symbols.UpdateSymbol(ctx, created[1].ID, symbols.SymbolFields{Data: new("updated")}, symbols.Any)
		return err
	}, func(ctx context.Context, w *writer) error {
		symbol, err := w.symbols.GetSymbol(ctx, created[1].ID)
		if err == nil && symbol.Data != "updated" {
			err = fmt.Errorf("symbol %d is %s", symbol.ID, symbol.Data)
		}
		return err
	})
	w.try("symbol deleted", func(ctx context.Context) error {
		return w.symbols.DeleteSymbol(ctx, created[2].ID, symbols.Any, 0)
	}, func(ctx context.Context, w *writer) error {
		_, err := w.symbols.GetSymbol(ctx, created[2].ID)
		return mustBe(err, symbols.ErrSymbolNotFound)
	})
}

func (w *writer) writeExports(name string) {
	registered := make([]exports.Export, 2)
	for i := range registered {
		source := fmt.Sprint(name, i)
		if !w.try("export registered", func(ctx context.Context) (err error) {
			registered[i], _, err = w.exports.Register(ctx, exports.Registration{SourceURL: source, ExportedURL: "https://files.example/" + source})
			return err
		}, func(ctx context.Context, w *writer) error {
			if i == 1 { // may be removed
				return nil
			}
			return errorOf(w.exports.Find(ctx, source))
		}) {
			return
		}
	}
	w.try("export removed", func(ctx context.Context) error {
		return w.exports.Delete(ctx, registered[1].ID)
	}, func(ctx context.Context, w *writer) error {
		_, err := w.exports.Get(ctx, registered[1].ID)
		return mustBe(err, exports.ErrNotFound)
	})
}

func (w *writer) writeLink(name string) {
	link := exports.StoredLink{
		Digest:    sha256.Sum256([]byte(name)),
		CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
		ExpiresAt: time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond),
		Plan:      []byte("planned"),
	}
	all := exports.LinkLimit{Links: 1 << 30, Bytes: 1 << 40}
	if !w.try("link created", func(ctx context.Context) error {
		return w.links.InsertLink(ctx, link, exports.LinkLimits{PerOwner: all, PerClient: all, Served: 64})
	}, func(ctx context.Context, w *writer) error { return errorOf(w.findLink(ctx, link.Digest)) }) {
		return
	}
	w.try("plan replaced", func(ctx context.Context) error {
		return errorOf(w.links.ReplacePlan(ctx, link.Digest, 1, []byte("replaced")))
	}, func(ctx context.Context, w *writer) error {
		stored, err := w.findLink(ctx, link.Digest)
		if err == nil && string(stored.Plan) != "replaced" {
			err = fmt.Errorf("the plan is %q", stored.Plan)
		}
		return err
	})
}

// findLink returns a link of the store, and ErrUnavailable as a service would.
func (w *writer) findLink(ctx context.Context, digest exports.Digest) (exports.StoredLink, error) {
	stored, err := w.links.FindLink(ctx, digest, true)
	if err != nil && !errors.Is(err, exports.ErrLinkNotFound) {
		err = fmt.Errorf("%w: %w", exports.ErrUnavailable, err)
	}
	return stored, err
}

func mustBe(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("want %w", want))
}

// verify finds all writes of others that were acknowledged, and returns how many there
// were. It repeats calls while the store is unavailable.
func (w *writer) verify(others ...*writer) (acknowledged int) {
	w.t.Helper()
	var running sync.WaitGroup
	limit := make(chan struct{}, 4)
	for _, other := range others {
		for kind, list := range other.acknowledged {
			acknowledged += len(list)
			for _, found := range list {
				limit <- struct{}{}
				running.Go(func() {
					defer func() { <-limit }()
					repeat(w.t, func(ctx context.Context) error {
						err := found(ctx, w)
						if errors.Is(err, keys.ErrUnavailable) || errors.Is(err, symbols.ErrUnavailable) || errors.Is(err, exports.ErrUnavailable) {
							return err
						}
						if err != nil {
							w.t.Errorf("lost: %s: %v", kind, err)
						}
						return nil
					})
				})
			}
		}
	}
	running.Wait()
	return acknowledged
}
