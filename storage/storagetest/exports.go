package storagetest

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"example.com/canvasback/exports"
)

var exportChecks = []check{
	{"Put assigns new ids, ascending", exportIDs},
	{"Put replaces the export of a source", exportReplace},
	{"Put follows its rule", exportRule},
	{"text is stored unchanged and sources are compared exactly", exportTexts},
	{"URLs can have the maximum length", exportLongURLs},
	{"times are stored to the millisecond, in UTC", exportTimes},
	{"Find returns each export once", exportFind},
	{"Find accepts 1,000 sources", exportFindMany},
	{"Get returns an export", exportGet},
	{"List returns pages", exportPages},
	{"List searches source URLs", exportSearch},
	{"List finds no deleted exports", exportSearchDeleted},
	{"Delete removes one export", exportDelete},
	{"ids are not reused", exportIDsNotReused},
	{"exports are not shared with the caller", exportValues},
	{"exports persist", exportPersists},
}

// newExport returns an export of source.
func newExport(source string) exports.Export {
	return exports.Export{
		SourceURL:    source,
		ExportedURL:  "https://files.example/" + source,
		FileName:     source + ".pdf",
		RegisteredBy: "key 7",
		CreatedAt:    testTime,
		UpdatedAt:    testTime,
	}
}

// putExport stores the first export of a source.
func putExport(t testing.TB, s Storage, export exports.Export) exports.Export {
	t.Helper()
	stored, created, err := s.Exports().Put(t.Context(), export, exports.PutRule{})
	must(t, err)
	if !created {
		t.Errorf("Put(%+.100v) reports that it replaced an export", export)
	}
	export.ID = stored.ID
	if stored != export {
		t.Errorf("Put returns %+.100v, want %+.100v", stored, export)
	}
	return stored
}

// wantExports checks that Find returns want for the sources of want.
func wantExports(t testing.TB, s Storage, want ...exports.Export) {
	t.Helper()
	var sources []string
	for _, export := range want {
		sources = append(sources, export.SourceURL)
	}
	wantFound(t, s, sources, want...)
}

// wantFound checks that Find returns want in any order.
func wantFound(t testing.TB, s Storage, sources []string, want ...exports.Export) {
	t.Helper()
	got, err := s.Exports().Find(t.Context(), "", sources...)
	must(t, err)
	byID := func(a, b exports.Export) int { return cmp.Compare(a.ID, b.ID) }
	got, want = slices.SortedFunc(slices.Values(got), byID), slices.SortedFunc(slices.Values(want), byID)
	if !slices.Equal(got, want) {
		t.Errorf("Find returns %+.100v, want %+.100v", got, want)
	}
}

func exportIDs(t *testing.T, s Harness) {
	last := int64(0)
	for _, source := range []string{"b", "c", "a"} {
		export := newExport(source)
		export.ID = 1 // ignored
		id := putExport(t, s, export).ID
		if id <= last {
			t.Errorf("Put assigns id %d after %d", id, last)
		}
		last = id
	}
}

func exportReplace(t *testing.T, s Harness) {
	other, previous := putExport(t, s, newExport("other")), putExport(t, s, newExport("source"))
	for _, export := range []exports.Export{
		{
			ID:          other.ID, // ignored
			SourceURL:   "source",
			ExportedURL: "https://files.example/new",
			FileName:    "new.pdf",
			CreatedAt:   testTime.Add(time.Hour), // ignored
			UpdatedAt:   testTime.Add(time.Hour),
		},
		{SourceURL: "source", ExportedURL: "https://files.example/unnamed", CreatedAt: testTime, UpdatedAt: testTime},
	} {
		stored, created, err := s.Exports().Put(t.Context(), export, exports.PutRule{})
		must(t, err)
		if created {
			t.Error("Put reports that a replaced export is new")
		}
		export.ID, export.CreatedAt = previous.ID, previous.CreatedAt
		wantEqual(t, "Put returns", stored, export)
		wantExports(t, s, export, other)
	}
}

func exportTexts(t *testing.T, s Harness) {
	var want []exports.Export
	for _, text := range sampleTexts {
		export := newExport(text)
		export.ExportedURL, export.FileName = text, text
		want = append(want, putExport(t, s, export))
	}
	for _, export := range want {
		wantExports(t, s, export)
	}
	wantExports(t, s, want...)
}

func exportLongURLs(t *testing.T, s Harness) {
	long := incompressibleText(exports.MaxURLLength - 1)
	var want []exports.Export
	for _, last := range []string{"", "a", "b", "𝒜", "𝒝"} { // sources differ in their last character
		export := newExport(long + last)
		export.ExportedURL, export.FileName = long+last, long+last
		want = append(want, putExport(t, s, export))
	}
	for _, export := range want {
		wantExports(t, s, export)
	}
	wantExports(t, s, want...)
	must(t, s.Exports().Delete(t.Context(), want[1].ID))
	wantFound(t, s, []string{want[1].SourceURL, want[2].SourceURL}, want[2])
}

func exportTimes(t *testing.T, s Harness) {
	for _, at := range times {
		export := newExport(at.String())
		export.CreatedAt, export.UpdatedAt = at, at
		stored := putExport(t, s, export)
		wantExports(t, s, stored)
		if stored.CreatedAt.Location() != time.UTC || stored.UpdatedAt.Location() != time.UTC {
			t.Errorf("times are in %v and %v, want UTC", stored.CreatedAt.Location(), stored.UpdatedAt.Location())
		}
	}
}

func exportFind(t *testing.T, s Harness) {
	wantFound(t, s, nil)
	wantFound(t, s, []string{"a"})
	a, b := putExport(t, s, newExport("a")), putExport(t, s, newExport("b"))
	wantFound(t, s, nil)
	wantFound(t, s, []string{"b"}, b)
	wantFound(t, s, []string{"b", "missing", "a", "b", "b", "A", "a ", "missing", ""}, a, b)
}

func exportFindMany(t *testing.T, s Harness) {
	var sources []string
	var want []exports.Export
	for i := range 1000 {
		source := "https://drawings.example/" + strconv.Itoa(i)
		if i%20 == 0 {
			want = append(want, putExport(t, s, newExport(source)))
		}
		sources = append(sources, source)
	}
	wantFound(t, s, sources, want...)
}

func exportDelete(t *testing.T, s Harness) {
	export, other := putExport(t, s, newExport("export")), putExport(t, s, newExport("other"))
	wantError(t, s.Exports().Delete(t.Context(), other.ID+1), exports.ErrNotFound)
	must(t, s.Exports().Delete(t.Context(), export.ID))
	wantError(t, s.Exports().Delete(t.Context(), export.ID), exports.ErrNotFound)
	wantFound(t, s, []string{"export", "other"}, other)
	if stored := putExport(t, s, newExport("export")); stored.ID == export.ID {
		t.Errorf("Put after Delete assigns the previous id %d", stored.ID)
	}
}

func exportIDsNotReused(t *testing.T, s Harness) {
	putExport(t, s, newExport("stays"))
	last := putExport(t, s, newExport("newest")).ID
	must(t, s.Exports().Delete(t.Context(), last))
	next := putExport(t, s, newExport("next")).ID
	if next <= last {
		t.Errorf("Put assigns id %d, want more than the deleted %d", next, last)
	}
	must(t, s.Exports().Delete(t.Context(), next))
	second := s.reopen(t)
	if id := putExport(t, second, newExport("after a restart")).ID; id <= next {
		t.Errorf("Put after reopening assigns id %d, want more than the deleted %d", id, next)
	}
}

func exportValues(t *testing.T, s Harness) {
	export := putExport(t, s, newExport("export"))
	found, err := s.Exports().Find(t.Context(), "", "export")
	must(t, err)
	found[0].FileName = "altered"
	wantExports(t, s, export)
}

func exportPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	export := putExport(t, s, newExport("export"))
	wantExports(t, second, export)
	must(t, second.Exports().Delete(t.Context(), export.ID))
	wantFound(t, s, []string{"export"})
}
