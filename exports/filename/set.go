package filename

import (
	"strconv"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Set hands out the names of an archive's entries, each once even where
// letter case and Unicode composition are not told apart. It is not safe for
// concurrent use.
type Set struct {
	taken map[string]bool
	next  map[string]int // first suffix to try, by name
}

// NewSet returns a Set in which the reserved names have been given out.
func NewSet(reserved ...string) *Set {
	s := &Set{taken: make(map[string]bool), next: make(map[string]int)}
	for _, name := range reserved {
		s.taken[fold(name)] = true
	}
	return s
}

// Unique returns a clean name or, if it has been given out, the name with the
// first free number: plan.pdf, plan-1.pdf, plan-2.pdf.
func (s *Set) Unique(name string) string {
	folded := fold(name)
	for candidate, key := name, folded; ; {
		if !s.taken[key] {
			s.taken[key] = true
			return candidate
		}
		s.next[folded]++
		candidate = shorten(name, "-"+strconv.Itoa(s.next[folded]))
		key = fold(candidate)
	}
}

// fold is equal for names that some file system takes for the same.
func fold(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}
