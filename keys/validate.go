package keys

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxName is the maximum length of a key's name in Unicode code points.
const maxName = 255

// checkName accepts 1 to maxName code points, not all of them white space.
func checkName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return invalid("name must be valid UTF-8")
	case strings.ContainsRune(name, 0):
		return invalid("name must not contain a NUL character")
	case strings.TrimSpace(name) == "":
		return invalid("name must not be empty")
	case utf8.RuneCountInString(name) > maxName:
		return invalid(fmt.Sprintf("name must have at most %d characters", maxName))
	}
	return nil
}

// checkExpiry accepts the zero time and the years 1970 to 9999.
func checkExpiry(at time.Time) error {
	if year := at.UTC().Year(); !at.IsZero() && (year < 1970 || year > 9999) {
		return invalid("expiresAt must be in the years 1970 to 9999")
	}
	return nil
}

// check returns an error for the first invalid field.
func (f Fields) check() error {
	if f.Name != nil {
		if err := checkName(*f.Name); err != nil {
			return err
		}
	}
	if f.ExpiresAt != nil {
		return checkExpiry(*f.ExpiresAt)
	}
	return nil
}

// apply sets the given fields of key and reports whether any changed.
func (f Fields) apply(key *Key) bool {
	before := *key
	if f.Name != nil {
		key.Name = *f.Name
	}
	if f.Active != nil {
		key.Active = *f.Active
	}
	if f.ExpiresAt != nil {
		key.ExpiresAt = milli(*f.ExpiresAt)
	}
	return *key != before
}

// milli returns t in UTC, truncated to the millisecond. The zero time stays zero.
func milli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}
