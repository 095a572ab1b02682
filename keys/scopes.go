package keys

import "strings"

// Scopes are the scopes of a key. The zero value permits everything. Scopes are
// immutable and comparable.
type Scopes struct {
	list    string // separated by spaces
	limited bool   // if false, everything is permitted
}

// allScopes is the text of Scopes that permit everything. It is not a valid scope.
const allScopes = "*"

// newScopes returns Scopes of a valid list; nil permits everything.
func newScopes(list []string) Scopes {
	return Scopes{strings.Join(list, " "), list != nil}
}

// ParseScopes reverses [Scopes.String]. It is for implementations of [Store].
func ParseScopes(text string) Scopes {
	if text == allScopes {
		return Scopes{}
	}
	return Scopes{text, true}
}

// String returns the scopes separated by spaces, or "*" if everything is permitted.
func (s Scopes) String() string {
	if !s.limited {
		return allScopes
	}
	return s.list
}

// List returns the scopes in the order in which they were set, or nil if
// everything is permitted.
func (s Scopes) List() []string {
	if !s.limited {
		return nil
	}
	return strings.Fields(s.list)
}

func (s Scopes) allow(scope string) bool {
	if !s.limited || scope == "" {
		return !s.limited
	}
	for list := s.list; ; {
		i := strings.IndexByte(list, ' ')
		if i < 0 {
			return list == scope
		}
		if list[:i] == scope {
			return true
		}
		list = list[i+1:]
	}
}
