package storagetest

import (
	"sync"
	"testing"

	"example.com/canvasback/storage/testflag"
)

// RunConcurrent checks the contracts under contention, through two handles that
// several goroutines use each, or through one if the storage has no Reopen. With the
// flag -long it always runs through one as well. Run it with the race detector.
func RunConcurrent(t *testing.T, open func(t testing.TB) Harness) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, handles []Storage)
	}{
		{"one of many folders gets a name", concurrentFolderNames},
		{"one of many renames gets a name", concurrentRenames},
		{"no update of a key is lost", concurrentKeyUpdates},
		{"no update of a folder or symbol is lost", concurrentSymbolUpdates},
		{"an update of a symbol starts over once at most", contendedSymbolUpdate},
		{"a key is deleted as it was checked", concurrentKeyDeletes},
		{"a key is found by its current digest only", concurrentDigestUpdates},
		{"LastUsedAt is the latest of all and UseCount the sum", concurrentTouches},
		{"no change is missing from the log", concurrentChanges},
		{"deletions and functions see what is current", contendedChanges},
		{"of a deletion and a change of one version one succeeds", concurrentMatches},
		{"DeleteFolder leaves no symbol", concurrentFolderDeletes},
		{"opposite moves succeed", concurrentMoves},
		{"equal versions mean equal data", concurrentReads},
		{"one of many Puts creates the export", concurrentPuts},
		{"one of many owners gets an export", concurrentOwners},
		{"one of many plans replaces a plan", concurrentPlans},
		{"links stay bounded", concurrentLinks},
		{"links deliver any range", concurrentDownloads},
		{"facts put together stay together", concurrentFacts},
		{"concurrent rotations leave one raw key, none of a deleted key", concurrentRotations},
		{"canceled calls do not affect other calls", concurrentCancels},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if s.Reopen == nil || *testflag.Long {
				c.run(t, []Storage{s, s})
				s.wantIdle(t)
			}
			if s.Reopen == nil {
				return
			}
			if *testflag.Long {
				s = open(t)
			}
			c.run(t, []Storage{s, s.Reopen()})
			s.wantIdle(t)
		})
	}
}

// parallel calls do n times in parallel with alternating handles, and returns
// the errors by i.
func parallel(handles []Storage, n int, do func(s Storage, i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			errs[i] = do(handles[i%len(handles)], i)
		})
	}
	close(start)
	group.Wait()
	return errs
}

// wantOne checks that one error is nil and the others match others.
func wantOne(t *testing.T, errs []error, others error) {
	t.Helper()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		wantError(t, err, others)
	}
	if succeeded != 1 {
		t.Errorf("%d of %d succeeded, want 1", succeeded, len(errs))
	}
}

// appendMark appends one character, so that the length counts the calls.
func appendMark(text *string) { *text += "." }
