package storagetest

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"example.com/canvasback/exports"
)

func concurrentPuts(t *testing.T, handles []Storage) {
	const workers = 16
	stored, created := make([]exports.Export, workers), make([]bool, workers)
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		export := newExport("source")
		export.FileName = strconv.Itoa(i)
		var err error
		stored[i], created[i], err = s.Exports().Put(t.Context(), export, exports.PutRule{})
		return err
	}) {
		must(t, err)
	}
	count := 0
	for i, export := range stored {
		if created[i] {
			count++
		}
		if export.ID != stored[0].ID || export.FileName != strconv.Itoa(i) {
			t.Errorf("Put returns %+v, want id %d and name %d", export, stored[0].ID, i)
		}
	}
	if count != 1 {
		t.Errorf("%d of %d created the export, want 1", count, workers)
	}
	for _, s := range handles {
		found, err := s.Exports().Find(t.Context(), "", "source")
		must(t, err)
		if len(found) != 1 || !slices.Contains(stored, found[0]) {
			t.Errorf("Find returns %+v, want one of %+v", found, stored)
		}
	}
}

func concurrentOwners(t *testing.T, handles []Storage) {
	const workers = 16
	var owner atomic.Int64 // the number of the worker that created the export, from 1
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		export := newExport("source")
		export.RegisteredBy = strconv.Itoa(i)
		_, created, err := s.Exports().Put(t.Context(), export, exports.PutRule{OwnOnly: true})
		if created && !owner.CompareAndSwap(0, int64(i)+1) {
			return errors.New("two calls created the export")
		}
		if err == nil && !created {
			return errors.New("the export of another was replaced")
		}
		if errors.Is(err, exports.ErrNotOwner) {
			err = nil
		}
		return err
	}) {
		must(t, err)
	}
	want := strconv.FormatInt(owner.Load()-1, 10)
	for _, s := range handles {
		found, err := s.Exports().Find(t.Context(), "", "source")
		must(t, err)
		if len(found) != 1 || found[0].RegisteredBy != want {
			t.Errorf("Find returns %+v, want one of %s", found, want)
		}
	}
}
