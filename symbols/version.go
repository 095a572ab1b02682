package symbols

import "slices"

// Version identifies a state of a folder list, folder, folder contents or
// symbol. It is positive. Versions can be compared for equality only: they have
// no order.
type Version int64

// Match is the condition of a change: the versions that the folder or symbol may
// have. The zero value matches no version, so that a condition that was forgotten
// changes nothing.
type Match struct {
	any      bool
	versions []Version
}

// Any matches every version: the change is unconditional.
var Any = Match{any: true}

// IfMatch returns the condition that the version is one of those given. It matches
// nothing if there are none.
func IfMatch(versions ...Version) Match { return Match{versions: slices.Clone(versions)} }

// Matches reports whether the condition holds for a version.
func (m Match) Matches(v Version) bool { return m.any || slices.Contains(m.versions, v) }
