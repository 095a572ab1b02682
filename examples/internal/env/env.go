// Package env reads environment variables into the fields of a configuration, by a
// table that also documents them.
package env

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is a list of groups of variables.
type Table []Group

// Group is a part of the documentation of a [Table].
type Group struct {
	Title     string
	Variables []Variable
}

// Variable is an environment variable.
type Variable struct {
	name     string
	fallback string // value if it is unset or empty
	usage    string
	set      func(value string) error
	empty    bool // an empty value differs from none
}

// Read sets all variables, and calls check after each. White space around a value is
// ignored, and an empty one counts as unset, except that of a [Path]. An error begins with
// the name of a variable.
func (t Table) Read(lookup func(string) (string, bool), check func() error) error {
	for _, g := range t {
		for _, v := range g.Variables {
			value, ok := lookup(v.name)
			value = strings.TrimSpace(value)
			if value == "" && !(ok && v.empty) {
				value = v.fallback
			}
			if value == "" && !v.empty {
				continue
			}
			if err := v.set(value); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			if err := check(); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return nil
}

// Func returns a variable that a function sets. Its error does not need the name.
func Func(set func(value string) error, name, fallback, usage string) Variable {
	return Variable{name: name, fallback: fallback, usage: usage, set: set}
}

// Parsed returns a variable whose value a function parses.
func Parsed[T any](target *T, parse func(value string) (T, error), name, fallback, usage string) Variable {
	return Func(func(value string) (err error) {
		*target, err = parse(value)
		return err
	}, name, fallback, usage)
}

// String returns a variable for any text.
func String(target *string, name, fallback, usage string) Variable {
	return Parsed(target, func(value string) (string, error) { return value, nil }, name, fallback, usage)
}

// List returns a variable for texts between commas, without white space around them and
// empty ones.
func List(target *[]string, name, fallback, usage string) Variable {
	return Parsed(target, func(value string) (list []string, err error) {
		for element := range strings.SplitSeq(value, ",") {
			if element = strings.TrimSpace(element); element != "" {
				list = append(list, element)
			}
		}
		return list, nil
	}, name, fallback, usage)
}

// Bool returns a variable for what [strconv.ParseBool] accepts.
func Bool(target *bool, name, fallback, usage string) Variable {
	return Parsed(target, parseBool, name, fallback, usage)
}

// OptionalBool is [Bool] with a target that stays nil if the variable is unset.
func OptionalBool(target **bool, name, usage string) Variable {
	return Parsed(target, func(value string) (*bool, error) {
		on, err := parseBool(value)
		return &on, err
	}, name, "", usage)
}

func parseBool(value string) (bool, error) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("must be true or false")
	}
	return on, nil
}

// Choice returns a variable with one of the keys of values.
func Choice[T any](target *T, values map[string]T, name, fallback, usage string) Variable {
	return Parsed(target, func(value string) (T, error) {
		chosen, ok := values[value]
		if !ok {
			return chosen, fmt.Errorf("must be one of %s", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		return chosen, nil
	}, name, fallback, usage)
}

// Duration returns a variable for a duration from least to most; a most of 0 is no limit.
func Duration(target *time.Duration, least, most time.Duration, name, fallback, usage string) Variable {
	return Parsed(target, func(value string) (time.Duration, error) {
		d, err := time.ParseDuration(value)
		switch {
		case err == nil && d >= least && (most == 0 || d <= most):
			return d, nil
		case most > 0:
			return 0, fmt.Errorf("must be a duration from %v to %v", least, most)
		}
		return 0, errors.New("must be a duration such as 90s or 24h")
	}, name, fallback, usage)
}

// Path returns a variable for a path of URLs. An empty value is the root, which is "".
func Path(target *string, name, fallback, usage string) Variable {
	v := Parsed(target, parsePath, name, fallback, usage)
	v.empty = true
	return v
}

func parsePath(value string) (string, error) {
	trimmed := strings.Trim(value, "/")
	if trimmed == "" {
		return "", nil
	}
	if p := "/" + trimmed; p == path.Clean(p) && p == (&url.URL{Path: p}).EscapedPath() {
		return p, nil
	}
	return "", fmt.Errorf("must be a plain path such as /api, not %q", value)
}

// Usage returns the documentation of the variables.
func (t Table) Usage() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, g := range t {
		fmt.Fprintf(table, "%s:\n\n", g.Title)
		for _, v := range g.Variables {
			usage := v.usage
			if v.fallback != "" {
				usage += " (default " + v.fallback + ")"
			}
			fmt.Fprintf(table, "  %s\t%s\n", v.name, usage)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	return out.String()
}

// Misspelled returns a sentence for each variable of environ, a list of NAME=value, that is
// not in the table but named like one that is: in another case, in the singular or plural, or
// by another name in the map aliases. Any other variable with one of the prefixes is
// misspelled, too.
func (t Table) Misspelled(environ []string, aliases map[string]string, prefixes ...string) (found []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		meant := aliases[name]
		for _, g := range t {
			for _, v := range g.Variables {
				if strings.TrimSuffix(strings.ToUpper(name), "S") == strings.TrimSuffix(v.name, "S") {
					meant = v.name
				}
			}
		}
		switch {
		case meant == name:
		case meant != "":
			found = append(found, fmt.Sprintf("%s is not read, use %s", name, meant))
		case slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			found = append(found, name+" is not read")
		}
	}
	return found
}
