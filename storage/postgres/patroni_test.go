//go:build linux

package postgres_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
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
