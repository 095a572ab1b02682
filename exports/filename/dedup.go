package filename

import (
	"strconv"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Dedup makes the names of an archive's entries unique, also on file systems
// that ignore letter case and Unicode composition. It is not safe for concurrent
// use.
type Dedup struct {
	used       map[string]bool // by folded name
	lastSuffix map[string]int  // by folded name
}

// NewDedup returns a Dedup that has already used the reserved names.
func NewDedup(reserved ...string) *Dedup {
	d := &Dedup{used: make(map[string]bool), lastSuffix: make(map[string]int)}
	for _, name := range reserved {
		d.used[foldCase(name)] = true
	}
	return d
}

// Unique returns a name that it has not returned before: name itself, which must
// be clean, or name with the first free number as in plan-1.pdf, plan-2.pdf.
func (d *Dedup) Unique(name string) string {
	folded := foldCase(name)
	for candidate, key := name, folded; ; {
		if !d.used[key] {
			d.used[key] = true
			return candidate
		}
		d.lastSuffix[folded]++
		candidate = truncate(name, "-"+strconv.Itoa(d.lastSuffix[folded]))
		key = foldCase(candidate)
	}
}

// foldCase maps names that some file system treats as equal to the same string.
func foldCase(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}
