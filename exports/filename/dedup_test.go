package filename

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func FuzzDedup_Unique(f *testing.F) {
	for _, c := range cleanNames {
		f.Add(c.given, c.want)
	}
	f.Add("manifest.json", "MANIFEST.JSON")
	f.Add("straße", "STRASSE")
	f.Fuzz(func(t *testing.T, a, b string) {
		is := is.New(t)
		names := NewDedup("manifest.json")
		seen := map[string]bool{foldCase("manifest.json"): true}
		for _, given := range []string{a, b, a, b, a} {
			name := Clean(given)
			if name == "" {
				name = "canvas-export"
			}
			checkClean(t, name)
			is.Equal(Clean(name), name)
			unique := names.Unique("", name)
			checkClean(t, unique)
			is.Equal(Clean(unique), unique)
			if key := foldCase(unique); seen[key] {
				t.Errorf("Unique returns %q twice", unique)
			} else {
				seen[key] = true
			}
		}
	})
}

func TestDedup_UniqueReturnsEachNameOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup("manifest.json")
	for _, c := range []struct{ given, want string }{
		{"plan.pdf", "plan.pdf"},
		{"plan.pdf", "plan-1.pdf"},
		{"plan-1.pdf", "plan-1-1.pdf"},
		{"plan.pdf", "plan-2.pdf"},
		{"PLAN.PDF", "PLAN-3.PDF"},
		{"a.tar.gz", "a.tar.gz"},
		{"a.tar.gz", "a.tar-1.gz"},
		{"manifest.json", "manifest-1.json"},
		{"Manifest.JSON", "Manifest-2.JSON"},
		{"noext", "noext"},
		{"noext", "noext-1"},
		{".env", ".env"},
		{".env", ".env-1"},
		{"straße", "straße"},
		{"STRASSE", "STRASSE-1"},
		{"ångström", "ångström"},
		{"ÅNGSTRÖM", "ÅNGSTRÖM-1"},
		{"\u212bngström", "Ångström-2"},
	} {
		is.Equal(names.Unique("", Clean(c.given)), c.want)
	}
	long := strings.Repeat("ä", 125) + ".pdf"
	is.Equal(names.Unique("", long), long)
	second := names.Unique("", long)
	is.Equal(second, strings.Repeat("ä", 124)+"-1.pdf") // the stem is shorter by the number

	long = Clean("NUL" + strings.Repeat(" ", 247) + "x.txt")
	is.Equal(len(long), 255) // one more space would leave a device name
	for range 20 {
		checkClean(t, names.Unique("", long))
	}
}

func TestDedup_DropsFoldersOfLongPaths(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup()
	for _, folder := range []string{"a", strings.Repeat("漢", 85), strings.Repeat("\U0001d160", 21)} { // 1, 255 and 252 bytes
		for range 3 {
			unique := names.Unique(strings.Repeat(folder+"/", 4000), strings.Repeat("n", 255))
			is.True(len(unique) > 3700)
			is.True(len(unique) < 4010) // with numbers
		}
	}
}

// TestDedup_MemoryIsLinearInDepth is not parallel: it counts what is allocated.
func TestDedup_MemoryIsLinearInDepth(t *testing.T) {
	allocated := func(depth int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		NewDedup().Unique(strings.Repeat("a/", depth), "plan.pdf")
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	is.New(t).True(allocated(800) < 2*8*allocated(100))
}

func BenchmarkDedup_Unique(b *testing.B) {
	for b.Loop() {
		names := NewDedup("manifest.json")
		for i := range 1000 {
			names.Unique("", Clean(fmt.Sprintf("drawing %d.pdf", i%10)))
		}
	}
}
