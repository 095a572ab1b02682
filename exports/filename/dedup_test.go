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

// allocated returns how many bytes f allocates. Its callers must not run in parallel with
// other tests.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDedup_MemoryIsLinearInDepth(t *testing.T) {
	unique := func(depth int) uint64 {
		return allocated(func() { NewDedup().Unique(strings.Repeat("a/", depth), "plan.pdf") })
	}
	is.New(t).True(unique(800) < 2*8*unique(100))
}

// TestDedup_WorkIsLinearInNames has names of which each takes an attempt for all earlier ones
// unless Dedup remembers numbers. Attempts allocate.
func TestDedup_WorkIsLinearInNames(t *testing.T) {
	long := strings.Repeat("\u0390", 126)
	for name, unique := range map[string]func(d *Dedup, i, count int) string{
		"truncated": func(d *Dedup, i, _ int) string { return d.Unique("", long+string(rune(0x4e00+i/2))) },
		"folder": func(d *Dedup, i, count int) string {
			if i < count/2 {
				return d.Unique("", long)
			}
			return d.Unique(long, "x")
		},
		"folders": func(d *Dedup, i, count int) string {
			name := long + string(rune(0x4e00+i/2))
			switch {
			case i < count/2:
				return d.Unique("", long+"\u4e00")
			case i%2 == 0:
				return d.Unique("", name)
			}
			return d.Unique(name, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			work := func(count int) uint64 {
				d, seen := NewDedup(), make(map[string]bool)
				defer func() { is.Equal(len(seen), count) }()
				return allocated(func() {
					for i := range count {
						seen[foldCase(unique(d, i, count))] = true
					}
				})
			}
			is.True(work(800) < 2*8*work(100))
		})
	}
}

func TestDedup_FolderKeepsItsNumber(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := NewDedup()
	for _, c := range []struct{ folder, name, want string }{
		{"", "a", "a"},
		{"", "a", "a-1"},
		{"a", "x", "a-2/x"},
		{"", "A", "A-3"},
		{"A", "x", "A-2/x-1"},
		{"a-1", "x", "a-1-1/x"},
		{"a-2", "x", "a-2/x-2"},
	} {
		is.Equal(names.Unique(c.folder, c.name), c.want)
	}
}

func BenchmarkDedup_Unique(b *testing.B) {
	for b.Loop() {
		names := NewDedup("manifest.json")
		for i := range 1000 {
			names.Unique("", Clean(fmt.Sprintf("drawing %d.pdf", i%10)))
		}
	}
}
