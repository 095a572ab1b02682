package storagetest

import (
	"context"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// Fault is how a call to a database fails.
type Fault int

const (
	Refused    Fault = iota // it fails and is not carried out
	AnswerLost              // it fails and is carried out
	Gone                    // it fails and is not carried out, and so do all later ones
)

func (f Fault) String() string { return [...]string{"refused", "answer lost", "gone"}[f] }

// Failing is a storage whose calls to its database can be made to fail. Again
// opens it once more, and there no call fails.
type Failing struct {
	Opened

	// Fail makes the n-th call to the database from now on fail, counted from
	// 1. If n is 0, none fails.
	Fail func(fault Fault, n int)

	// Failed returns how many calls have failed since Fail.
	Failed func() int
}

// RunFailing holds a driver to doing all or nothing. It has each method fail
// at its first call to the database, then at the second, and so on until it
// needs no more, and looks at what that leaves behind.
func RunFailing(t *testing.T, open func(t testing.TB) Failing) {
	for _, fault := range []Fault{Refused, AnswerLost, Gone} {
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
	Failing
	calls []call
}

func newFailingCalls(t testing.TB, f Failing) failingCalls {
	f.Fail(Refused, 0)
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
	again, method := f.Again(), f.calls[which].method
	before := stateOf(t, again, "export", "new")
	for {
		at := len(outcomes) + 1
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		f.Fail(fault, at)
		err := f.calls[which].do(ctx)
		failed := f.Failed()
		f.Fail(fault, 0)
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
			again = f.Again()
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
		case o.err != nil && o.effect != "" && (fault != AnswerLost || o.effect != want):
			t.Errorf("%s fails with call %d (%v), with the effect:\n%s\nof:\n%s", method, o.at, o.err, o.effect, want)
		}
	}
}
