package keys

import (
	"slices"
	"strings"
)

// Scopes are the scopes of a key. The zero value permits everything. Scopes are
// immutable and comparable.
type Scopes struct {
	list    string // separated by spaces
	limited bool   // if false, everything is permitted
}

const scopeChars = "abcdefghijklmnopqrstuvwxyz0123456789:._-"

// allScopes is the text of Scopes that permit everything. It is not a valid scope.
const allScopes = "*"

// NewScopes returns Scopes that permit the given ones and nothing else; none permit
// nothing. They are up to 32 different ones, each 1 to 64 of a-z 0-9 : . _ - in any
// order. Otherwise the error matches [ErrInvalid].
func NewScopes(list ...string) (Scopes, error) {
	const maxScopes, maxScope = 32, 64
	if len(list) > maxScopes {
		return Scopes{}, invalid("scopes must be at most %d", maxScopes)
	}
	for i, scope := range list {
		if scope == "" || len(scope) > maxScope || strings.Trim(scope, scopeChars) != "" {
			return Scopes{}, invalid("scopes[%d] must be 1 to %d of a-z 0-9 : . _ -", i, maxScope)
		}
		if slices.Contains(list[:i], scope) {
			return Scopes{}, invalid("scopes[%d] must not be repeated", i)
		}
	}
	return Scopes{strings.Join(list, " "), true}, nil
}

// ParseScopes reverses [Scopes.String]. It is for implementations of [Store].
func ParseScopes(text string) Scopes {
	if text == allScopes {
		return Scopes{}
	}
	return Scopes{text, true}
}

// check returns an error for scopes that NewScopes does not return: those of ParseScopes and
// UnmarshalText may be any text.
func (s Scopes) check() error {
	checked, err := NewScopes(s.List()...)
	if err == nil && checked.list != s.list { // they would permit less than List returns
		return invalid("scopes must be separated by one space")
	}
	return err
}

// String returns the scopes separated by spaces, or "*" if everything is permitted.
func (s Scopes) String() string {
	if !s.limited {
		return allScopes
	}
	return s.list
}

// MarshalText and UnmarshalText are for JSON and the like. The text is that of String.
func (s Scopes) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *Scopes) UnmarshalText(text []byte) error {
	*s = ParseScopes(string(text))
	return nil
}

// List returns the scopes in the order in which they were set, or nil if
// everything is permitted.
func (s Scopes) List() []string {
	if !s.limited {
		return nil
	}
	return strings.Fields(s.list)
}

// and returns the scopes that both permit, in the order of s.
func (s Scopes) and(other Scopes) Scopes {
	if !s.limited {
		return other
	}
	list := slices.DeleteFunc(s.List(), func(scope string) bool { return !other.allow(scope) })
	return Scopes{strings.Join(list, " "), true}
}

// within reports whether other permits whatever s does, which may be unlimited to be so.
func (s Scopes) within(other Scopes) bool { return !s.limited || s.and(other) == s }

func (s Scopes) allow(scope string) bool {
	if !s.limited || scope == "" {
		return !s.limited
	}
	for permitted := range strings.SplitSeq(s.list, " ") {
		if permitted == scope {
			return true
		}
	}
	return false
}
