package symbols

import "slices"

// Version identifies a state of a folder list, folder, folder contents or
// symbol. It is positive. Versions can be compared for equality only: they have
// no order.
type Version int64

// Matches reports whether ifMatch contains v or is empty.
func (v Version) Matches(ifMatch []Version) bool {
	return len(ifMatch) == 0 || slices.Contains(ifMatch, v)
}
