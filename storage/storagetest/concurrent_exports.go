package storagetest

import (
	"slices"
	"strconv"
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
		found, err := s.Exports().Find(t.Context(), "source")
		must(t, err)
		if len(found) != 1 || !slices.Contains(stored, found[0]) {
			t.Errorf("Find returns %+v, want one of %+v", found, stored)
		}
	}
}
