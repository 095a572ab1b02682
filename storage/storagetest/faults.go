package storagetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// Fault is how a database call fails.
type Fault int

const (
	Rejected     Fault = iota // the database does not execute the call
	ResponseLost              // the database executes the call, the caller gets an error
	Down                      // as Rejected, for this call and all later ones
)

func (f Fault) String() string { return [...]string{"rejected", "response lost", "down"}[f] }

// FaultHarness is a Harness whose database calls ask Faults whether they fail. Calls
// of a storage that Reopen returns must not fail.
type FaultHarness struct {
	Harness
	Faults *Faults
}

// Faults decides which database calls fail. The zero value lets all succeed. It is
// safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	fault  Fault
	at     int // the call that fails, counted from 1; 0 for none
	calls  int
	failed int // calls
}

// Inject makes the n-th database call from now on fail, counted from 1. If n is 0, no
// call fails.
func (f *Faults) Inject(fault Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.at, f.calls, f.failed = fault, n, 0, 0
}

// Injected returns how the calls fail, and how many have failed since Inject.
func (f *Faults) Injected() (Fault, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault, f.failed
}

// Next counts a database call. It returns whether the database executes the call and
// whether the caller gets an error.
func (f *Faults) Next() (executed, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.at == 0 || f.calls < f.at || f.calls > f.at && f.fault != Down {
		return true, false
	}
	f.failed++
	return f.fault == ResponseLost, true
}

// RunFaults checks that methods are atomic, with each of the given faults. Each method fails
// at its first database call, then at its second, and so on until it succeeds; after each
// failure the test compares the content of the storage.
func RunFaults(t *testing.T, open func(t testing.TB) FaultHarness, faults ...Fault) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			for i, c := range newFaultCalls(t, open(t)).calls {
				t.Run(c.method, func(t *testing.T) {
					injectEverywhere(t, fault, i, func() faultCalls { return newFaultCalls(t, open(t)) })
				})
			}
		})
	}
}

// faultCalls is a storage with some content, and calls that succeed on it.
type faultCalls struct {
	FaultHarness
	calls []call
}

func newFaultCalls(t testing.TB, f FaultHarness) faultCalls {
	f.Faults.Inject(Rejected, 0)
	return faultCalls{f, prepareCalls(t, f)}
}

// prepareCalls fills a storage and returns variants of the calls of allCalls, and these.
// All of them succeed in this order.
func prepareCalls(t testing.TB, s Storage) []call {
	key, other := insertKey(t, s, "key"), insertKey(t, s, "other")
	folder, target := insertFolder(t, s, "folder"), insertFolder(t, s, "target")
	symbol := insertSymbols(t, s, folder.ID, newSymbols("first", "second")...)[0]
	fillTrash(t, s)
	export := putExport(t, s, newExport("export"))
	if hasLinks(s) {
		insertLink(t, s, newLink("link", "x"), manyLinks)
		putFacts(t, s, newFact("fact"))
	}
	return append([]call{
		{"keys.Touch of two", func(ctx context.Context) error {
			return s.Keys().Touch(ctx, []keys.Use{useOf(key, testTime), useOf(other, testTime)}, testTime)
		}},
		{"symbols.InsertSymbols of three", func(ctx context.Context) error {
			_, err := s.Symbols().InsertSymbols(ctx, folder.ID, newSymbols("a", "b", "c"))
			return err
		}},
		{"symbols.UpdateSymbol to another folder", func(ctx context.Context) error {
			_, err := s.Symbols().UpdateSymbol(ctx, symbol.ID, func(symbol *symbols.Symbol) error {
				symbol.FolderID, symbol.Data = target.ID, "altered"
				return nil
			})
			return err
		}},
		{"symbols.UpdateSymbol without a change", func(ctx context.Context) error { // it may repeat an unconfirmed one
			_, err := s.Symbols().UpdateSymbol(ctx, symbol.ID, func(*symbols.Symbol) error { return nil })
			return err
		}},
		{"symbols.UpdateSymbols without a change", func(ctx context.Context) error {
			_, err := s.Symbols().UpdateSymbols(ctx, []int64{symbol.ID}, symbols.Stamp{}, func(*symbols.SymbolInfo) error { return nil })
			return err
		}},
		{"exports.Put of a registered source", func(ctx context.Context) error {
			_, _, err := s.Exports().Put(ctx, exports.Export{SourceURL: "export", CreatedAt: testTime, UpdatedAt: testTime}, exports.PutRule{})
			return err
		}},
	}, allCalls(s, key, symbol, export)...)
}

// injectEverywhere makes calls[index] fail at each of its database calls, each
// time on a storage that it has not changed.
func injectEverywhere(t *testing.T, fault Fault, index int, open func() faultCalls) {
	type outcome struct {
		at   int
		err  error
		diff string
	}
	var outcomes []outcome
	f := open()
	second, method := f.Reopen(), f.calls[index].method
	before := takeSnapshot(t, second)
	for {
		at := len(outcomes) + 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		f.Faults.Inject(fault, at)
		err := f.calls[index].do(ctx)
		_, failed := f.Faults.Injected()
		f.Faults.Inject(fault, 0)
		if ctx.Err() != nil {
			t.Fatalf("%s hangs if database call %d fails", method, at)
		}
		cancel()
		f.wantIdle(t)
		after := takeSnapshot(t, second)
		outcomes = append(outcomes, outcome{at, err, diff(before, after)})
		if failed == 0 {
			must(t, err)
			break
		}
		wantNoSentinel(t, method, err)
		if outcomes[at-1].diff != "" {
			f = open()
			second = f.Reopen()
			after = takeSnapshot(t, second)
		}
		before = after
	}
	wantVersions(t, second)
	if len(outcomes) == 1 {
		t.Errorf("%s makes no database call", method)
	}
	want := outcomes[len(outcomes)-1].diff
	for _, o := range outcomes {
		switch {
		case o.err == nil && o.diff != want:
			t.Errorf("%s succeeds although database call %d fails, and changes:\n%s\nwant:\n%s", method, o.at, o.diff, want)
		case o.err != nil && o.diff != "" && (fault != ResponseLost || o.diff != want):
			t.Errorf("%s fails if database call %d fails (%v), but changes:\n%s\nout of:\n%s", method, o.at, o.err, o.diff, want)
		}
	}
}
