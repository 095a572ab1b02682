package storagetest

import (
	"sync"
	"testing"
)

// RunConcurrent holds a driver to its promises under contention, through one
// handle and, where the storage can be opened again, through two. It is worth
// most under the race detector.
func RunConcurrent(t *testing.T, open func(t testing.TB) Harness) {
	for _, race := range []struct {
		sentence string
		run      func(t *testing.T, handles []Storage)
	}{
		{"one of many folders gets the name", raceFolderName},
		{"one of many renames gets the name", raceRename},
		{"no update of a key is lost", raceKeyUpdates},
		{"no update of a folder or symbol is lost", raceSymbolUpdates},
		{"a rotated key is found by one digest", raceRotate},
		{"last use is the latest of all", raceTouch},
		{"no symbol outlives its folder", raceFolderDelete},
		{"opposite moves end well", raceMoves},
		{"one version is one state", raceReaders},
		{"one of many puts creates the export", racePut},
		{"rotations leave one raw key, and none of a dead key", raceRotations},
		{"contexts that end harm no other call", raceContexts},
	} {
		t.Run(race.sentence, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			race.run(t, []Storage{s, s})
			s.wantIdle(t)
			if s.Reopen == nil {
				return
			}
			s = open(t)
			race.run(t, []Storage{s, s.Reopen()})
			s.wantIdle(t)
		})
	}
}

// together calls do n times at once, spread over the handles, and returns the
// errors in the order of the calls.
func together(handles []Storage, n int, do func(s Storage, i int) error) []error {
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

// wantOne reports unless one error is nil and the others are as given.
func wantOne(t *testing.T, errs []error, others error) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantError(t, err, others)
	}
	if won != 1 {
		t.Errorf("%d of %d succeeded, want 1", won, len(errs))
	}
}

// appendTo adds a mark to a text, so that updates can be counted.
func appendTo(text *string) { *text += "." }
