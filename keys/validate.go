package keys

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	defaultName = "API key" // of a key that was created without one
	maxText     = 255       // Unicode code points of a name or an owner
)

// checkText accepts 1 to maxText code points.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return invalid("%s must be valid UTF-8", field)
	case strings.ContainsRune(text, 0):
		return invalid("%s must not contain a NUL character", field)
	case text == "":
		return invalid("%s must not be empty", field)
	case utf8.RuneCountInString(text) > maxText:
		return invalid("%s must have at most %d characters", field, maxText)
	}
	return nil
}

// checkLabel is checkText for a text that is stored. It rejects white space alone.
func checkLabel(field, text string) error {
	if strings.TrimSpace(text) == "" {
		return checkText(field, "")
	}
	return checkText(field, text)
}

func (f Fields) check() error {
	if f.Name != nil {
		if err := checkLabel("name", *f.Name); err != nil {
			return err
		}
	}
	if f.ExpiresAt != nil && !f.ExpiresAt.IsZero() {
		if year := f.ExpiresAt.UTC().Year(); year < 1970 || year > 9999 {
			return invalid("expiresAt must be in the years 1970 to 9999")
		}
	}
	if f.Owner != nil && *f.Owner != "" {
		if err := checkLabel("owner", *f.Owner); err != nil {
			return err
		}
	}
	return cmp.Or(f.Scopes, new(Scopes)).check()
}

// revokes reports whether an update of these fields is a revoking call.
func (f Fields) revokes() bool {
	return f.Active != nil && !*f.Active ||
		f.ExpiresAt != nil && !f.ExpiresAt.IsZero() ||
		f.Scopes != nil ||
		f.Owner != nil
}

const maxIDs = 1000 // of keys that are changed, imported or revoked at once

// checkIDs accepts 1 to most different ids.
func checkIDs(ids []int64, most int) error {
	if len(ids) == 0 || len(ids) > most {
		return invalid("ids must be 1 to %d", most)
	}
	seen := make(map[int64]bool)
	for i, id := range ids {
		switch {
		case id < 1:
			return invalid("ids[%d] must be positive", i)
		case seen[id]:
			return invalid("ids[%d] must not be repeated", i)
		}
		seen[id] = true
	}
	return nil
}

func (f Fields) apply(key *Key) {
	key.Name = *cmp.Or(f.Name, &key.Name)
	key.Active = *cmp.Or(f.Active, &key.Active)
	key.ExpiresAt = cmp.Or(f.ExpiresAt, &key.ExpiresAt).UTC().Truncate(time.Millisecond)
	key.Owner = *cmp.Or(f.Owner, &key.Owner)
	key.Scopes = *cmp.Or(f.Scopes, &key.Scopes)
}
