package storagetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
)

func exportRule(t *testing.T, s Harness) {
	put := func(by, name string, rule exports.PutRule) (exports.Export, bool, error) {
		export := newExport("source")
		export.RegisteredBy, export.FileName = by, name
		if rule.IfAbsent {
			export.ExportedURL, export.CreatedAt, export.UpdatedAt = "https://files.example/late", testTime.Add(time.Hour), testTime.Add(time.Hour)
		}
		return s.Exports().Put(t.Context(), export, rule)
	}
	first, created, err := put("key 1", "first", exports.PutRule{KeepName: true, OwnOnly: true})
	must(t, err)
	if !created || first.FileName != "first" || first.RegisteredBy != "key 1" {
		t.Errorf("Put of a new export returns %+v %v", first, created)
	}
	for _, step := range []struct {
		by, name string
		rule     exports.PutRule
		err      error
		wantBy   string
		wantName string
	}{
		{"key 2", "denied", exports.PutRule{OwnOnly: true}, exports.ErrNotOwner, "key 1", "first"},
		{"", "denied", exports.PutRule{OwnOnly: true, KeepName: true}, exports.ErrNotOwner, "key 1", "first"},
		{"key 1", "own", exports.PutRule{OwnOnly: true}, nil, "key 1", "own"},
		{"key 1", "ignored", exports.PutRule{OwnOnly: true, KeepName: true}, nil, "key 1", "own"},
		{"key 2", "ignored", exports.PutRule{KeepName: true}, nil, "key 2", "own"},
		{"key 1", "denied", exports.PutRule{OwnOnly: true}, exports.ErrNotOwner, "key 2", "own"},
		{"", "", exports.PutRule{}, nil, "", ""},
		{"", "unknown", exports.PutRule{OwnOnly: true}, nil, "", "unknown"},
		{"key 1", "denied", exports.PutRule{OwnOnly: true}, exports.ErrNotOwner, "", "unknown"},
		{"key 1", "late", exports.PutRule{IfAbsent: true}, nil, "", "unknown"},
		{"", "late", exports.PutRule{IfAbsent: true, OwnOnly: true, KeepName: true}, nil, "", "unknown"},
	} {
		stored, created, err := put(step.by, step.name, step.rule)
		if created {
			t.Errorf("%+v: Put reports that a replaced export is new", step)
		}
		want := first
		want.RegisteredBy, want.FileName = step.wantBy, step.wantName
		if wantError(t, err, step.err); step.err == nil && stored != want {
			t.Errorf("%+v: Put returns %+v, want %+v", step, stored, want)
		}
		wantExports(t, s, want)
	}
}

func exportGet(t *testing.T, s Harness) {
	export, other := putExport(t, s, newExport("export")), putExport(t, s, newExport("other"))
	for _, want := range []exports.Export{export, other} {
		got, err := s.Exports().Get(t.Context(), want.ID)
		must(t, err)
		wantEqual(t, "Get returns", got, want)
	}
	for _, id := range []int64{other.ID + 1, 0, -1, math.MaxInt64} {
		_, err := s.Exports().Get(t.Context(), id)
		wantError(t, err, exports.ErrNotFound)
	}
}

// wantListed checks that List returns the page of those of the exports, ids ascending,
// whose source URLs contain a text.
func wantListed(t testing.TB, s Storage, all []exports.Export, contains string, r exports.Range) {
	t.Helper()
	var want exports.Page
	for _, export := range all {
		if export.ID <= r.After || !strings.Contains(export.SourceURL, contains) {
			continue
		}
		if want.More = r.Limit > 0 && len(want.Exports) == r.Limit; want.More {
			break
		}
		want.Exports = append(want.Exports, export)
	}
	got, err := s.Exports().List(t.Context(), exports.Filter{Contains: contains}, r)
	must(t, err)
	if !slices.Equal(got.Exports, want.Exports) || got.More != want.More {
		t.Errorf("List of %.100q %+v returns %d exports, want %d: %+.200v, want %+.200v", contains, r, len(got.Exports), len(want.Exports), got, want)
	}
}

func exportPages(t *testing.T, s Harness) {
	wantListed(t, s, nil, "", exports.Range{Limit: 10})
	var all []exports.Export
	for _, source := range []string{"b", "a", "d", "c"} {
		all = append(all, putExport(t, s, newExport(source)))
	}
	must(t, s.Exports().Delete(t.Context(), all[1].ID))
	deleted := all[1].ID
	all = slices.Delete(all, 1, 2)
	for _, after := range []int64{0, all[0].ID, deleted, all[1].ID, all[2].ID, math.MaxInt64} {
		for _, limit := range []int{math.MinInt, -1, 0, 1, 2, 3, 4, math.MaxInt} {
			wantListed(t, s, all, "", exports.Range{After: after, Limit: limit})
		}
	}
}

func exportSearch(t *testing.T, s Harness) {
	random := rand.New(rand.NewPCG(1, 2))
	sources := slices.Concat(sampleTexts, []string{incompressibleText(exports.MaxURLLength)})
	for range 150 { // few characters, so that texts repeat
		source := []rune("https://cad.example/")
		for range random.IntN(40) {
			source = append(source, []rune("ab0é%_")[random.IntN(6)])
		}
		if !slices.Contains(sources, string(source)) {
			sources = append(sources, string(source))
		}
	}
	var all []exports.Export
	for _, source := range sources {
		all = append(all, putExport(t, s, newExport(source)))
	}
	texts := []string{"", "%", "_", "https://", "HTTPS://", "missing", "https://cad.example/missing", "\U0010ffff", strings.Repeat("a", exports.MaxURLLength)}
	for range iterations(250, 5000) {
		source := []rune(sources[random.IntN(len(sources))])
		from := random.IntN(len(source))
		to := min(len(source), from+1+random.IntN(24))
		texts = append(texts, string(source[from:to]))
	}
	for _, text := range texts {
		r := exports.Range{Limit: 1 + random.IntN(40)}
		if random.IntN(2) == 0 {
			r.After = all[random.IntN(len(all))].ID
		}
		wantListed(t, s, all, text, r)
		wantListed(t, s, all, text, exports.Range{})
	}
}

func exportSearchDeleted(t *testing.T, s Harness) {
	var all []exports.Export
	for _, source := range []string{"aaaaaaaaaaaa", "aaaabbbbcccc", "ccccbbbbaaaa"} {
		all = append(all, putExport(t, s, newExport(source)))
	}
	for _, text := range []string{"aaaaaaa", "aabbbbcc", "cbbbbaaa", "aaaabbbbcccc"} {
		wantListed(t, s, all, text, exports.Range{Limit: 10})
	}
	must(t, s.Exports().Delete(t.Context(), all[1].ID))
	again := putExport(t, s, newExport(all[1].SourceURL))
	all = append(slices.Delete(all, 1, 2), again)
	for _, text := range []string{"aaaaaaa", "aabbbbcc", "cbbbbaaa", "aaaabbbbcccc"} {
		wantListed(t, s, all, text, exports.Range{Limit: 10})
	}
}
