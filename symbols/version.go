package symbols

import "slices"

// Version identifies one state of something readable. It is positive. Two
// versions of one thing are equal or not; no other comparison has a meaning.
type Version int64

// Matches reports whether v is one of ifMatch, or ifMatch is empty.
func (v Version) Matches(ifMatch []Version) bool {
	return len(ifMatch) == 0 || slices.Contains(ifMatch, v)
}
