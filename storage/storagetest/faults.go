package storagetest

import (
	"context"
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

// FaultHarness is a Harness whose database calls can be made to fail. Calls of
// a storage that Reopen returns must not fail.
type FaultHarness struct {
	Harness

	// Inject makes the n-th database call from now on fail, counted from 1.
	// If n is 0, no call fails.
	Inject func(fault Fault, n int)

	// Injected returns the number of calls that have failed since Inject.
	Injected func() int
}

// RunFaults checks that methods are atomic. Each method fails at its first
// database call, then at its second, and so on until it succeeds; after each
// failure the test compares the content of the storage.
func RunFaults(t *testing.T, open func(t testing.TB) FaultHarness) {
	for _, fault := range []Fault{Rejected, ResponseLost, Down} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			for i, c := range newFailingCalls(t, open(t)).calls {
				t.Run(c.method, func(t *testing.T) {
					failEverywhere(t, fault, i, func() failingCalls { return newFailingCalls(t, open(t)) })
				})
			}
		})
	}
}

// failingCalls is a storage with some content, and calls that succeed on it.
type failingCalls struct {
	FaultHarness
	calls []call
}

func newFailingCalls(t testing.TB, f FaultHarness) failingCalls {
	f.Inject(Rejected, 0)
	key, other := insertKey(t, f, "key"), insertKey(t, f, "other")
	folder, target := insertFolder(t, f, "folder"), insertFolder(t, f, "target")
	symbol := insertSymbols(t, f, folder.ID, newSymbols("first", "second")...)[0]
	putExport(t, f, newExport("export"))
	return failingCalls{f, append(allCalls(f, key, symbol), []call{
		{"keys.Touch of two", func(ctx context.Context) error {
			return f.Keys().Touch(ctx, []keys.Use{{ID: key.ID, At: noon}, {ID: other.ID, At: noon}})
		}},
		{"symbols.InsertSymbols of three", func(ctx context.Context) error {
			_, err := f.Symbols().InsertSymbols(ctx, folder.ID, newSymbols("a", "b", "c"))
			return err
		}},
		{"symbols.UpdateSymbol to another folder", func(ctx context.Context) error {
			_, err := f.Symbols().UpdateSymbol(ctx, symbol.ID, func(symbol *symbols.Symbol) error {
				symbol.FolderID, symbol.Data = target.ID, "altered"
				return nil
			})
			return err
		}},
		{"exports.Put in place of another", func(ctx context.Context) error {
			_, _, err := f.Exports().Put(ctx, exports.Export{SourceURL: "export", CreatedAt: noon, UpdatedAt: noon})
			return err
		}},
	}...)}
}

// failEverywhere makes one of the calls fail at all places, each time on a
// storage where it has not been carried out.
func failEverywhere(t *testing.T, fault Fault, which int, open func() failingCalls) {
	type outcome struct {
		at     int
		err    error
		effect string
	}
	var outcomes []outcome
	f := open()
	again, method := f.Reopen(), f.calls[which].method
	before := stateOf(t, again, "export", "new")
	for {
		at := len(outcomes) + 1
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		f.Inject(fault, at)
		err := f.calls[which].do(ctx)
		failed := f.Injected()
		f.Inject(fault, 0)
		if ctx.Err() != nil {
			t.Fatalf("%s hangs where call %d fails", method, at)
		}
		cancel()
		f.wantIdle(t)
		after := stateOf(t, again, "export", "new")
		outcomes = append(outcomes, outcome{at, err, effect(before, after)})
		if failed == 0 {
			must(t, err)
			break
		}
		wantNoFact(t, method, err)
		if outcomes[at-1].effect != "" {
			f = open()
			again = f.Reopen()
			after = stateOf(t, again, "export", "new")
		}
		before = after
	}
	wantVersions(t, again)
	if len(outcomes) == 1 {
		t.Errorf("%s has no call that fails", method)
	}
	want := outcomes[len(outcomes)-1].effect
	for _, o := range outcomes {
		switch {
		case o.err == nil && o.effect != want:
			t.Errorf("%s succeeds where call %d fails, with the effect:\n%s\nwant:\n%s", method, o.at, o.effect, want)
		case o.err != nil && o.effect != "" && (fault != ResponseLost || o.effect != want):
			t.Errorf("%s fails with call %d (%v), with the effect:\n%s\nof:\n%s", method, o.at, o.err, o.effect, want)
		}
	}
}
