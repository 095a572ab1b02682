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

// Table is a list of variables and titles.
type Table []Variable

// Variable is an environment variable, or a [Title].
type Variable struct {
	name     string
	fallback string // value if it is unset or empty
	usage    string
	set      func(value string) error
	empty    bool // an empty value differs from none
}

// Read sets all variables, and calls check after each. White space around a value is
// ignored. An error begins with the name of a variable.
func (t Table) Read(lookup func(string) (string, bool), check func() error) error {
	for _, v := range t {
		value, isSet := lookup(v.name)
		value = strings.TrimSpace(value)
		if value == "" && !(isSet && v.empty) {
			value = v.fallback
		}
		if v.set == nil || value == "" && !v.empty {
			continue
		}
		err := v.set(value)
		if err == nil {
			err = check()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

// Title returns a title of the documentation of the variables behind it.
func Title(text string) Variable { return Variable{usage: text} }

// Func returns a variable that a function sets. Its error does not need the name.
func Func(set func(value string) error, name, fallback, usage string) Variable {
	return Variable{name: name, fallback: fallback, usage: usage, set: set}
}

// Var returns a variable whose value a function parses.
func Var[T any](target *T, parse func(value string) (T, error), name, fallback, usage string) Variable {
	return Func(func(value string) (err error) {
		*target, err = parse(value)
		return err
	}, name, fallback, usage)
}

// OrEmpty returns v as a variable that an empty value sets.
func (v Variable) OrEmpty() Variable {
	v.empty = true
	return v
}

// Text accepts any text.
func Text(value string) (string, error) { return value, nil }

// List splits a value at commas, without white space around elements and empty ones.
func List(value string) (list []string, _ error) {
	for element := range strings.SplitSeq(value, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	return list, nil
}

// Bool accepts what [strconv.ParseBool] does.
func Bool(value string) (bool, error) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("must be true or false")
	}
	return on, nil
}

// OptionalBool is [Bool] for a pointer, which stays nil if the variable is unset.
func OptionalBool(value string) (*bool, error) {
	on, err := Bool(value)
	return &on, err
}

// Choice accepts the keys of values.
func Choice[T any](values map[string]T) func(string) (T, error) {
	return func(value string) (T, error) {
		chosen, ok := values[value]
		if !ok {
			return chosen, fmt.Errorf("must be one of %s", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		return chosen, nil
	}
}

// Duration accepts durations from least to most; a most of 0 is no limit.
func Duration(least, most time.Duration) func(string) (time.Duration, error) {
	return func(value string) (time.Duration, error) {
		d, err := time.ParseDuration(value)
		if err == nil && d >= least && (most == 0 || d <= most) {
			return d, nil
		}
		if most > 0 {
			return 0, fmt.Errorf("must be a duration from %v to %v", least, most)
		}
		return 0, errors.New("must be a duration such as 90s or 24h")
	}
}

// Path accepts a path of URLs. The root is "".
func Path(value string) (string, error) {
	p := path.Clean("/" + value)
	if p != (&url.URL{Path: p}).EscapedPath() {
		return "", fmt.Errorf("must be a plain path such as /api, not %q", value)
	}
	return strings.TrimSuffix(p, "/"), nil
}

// Usage returns the documentation of the variables.
func (t Table) Usage() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, v := range t {
		switch {
		case v.set == nil:
			fmt.Fprintf(table, "\n%s:\n\n", v.usage)
		case v.fallback != "":
			fmt.Fprintf(table, "  %s\t%s (default %s)\n", v.name, v.usage, v.fallback)
		default:
			fmt.Fprintf(table, "  %s\t%s\n", v.name, v.usage)
		}
	}
	table.Flush()
	return out.String()
}

// Misspelled returns a sentence for each variable of environ, a list of NAME=value, that is
// named like one of the table: in another case, in the singular or plural, by another name in
// the map aliases, or with one of the prefixes.
func (t Table) Misspelled(environ []string, aliases map[string]string, prefixes ...string) (found []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		meant := aliases[name]
		for _, v := range t {
			if strings.TrimSuffix(strings.ToUpper(name), "S") == strings.TrimSuffix(v.name, "S") {
				meant = v.name
			}
		}
		switch {
		case meant == name:
		case meant != "":
			found = append(found, name+" is not read, use "+meant)
		case slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			found = append(found, name+" is not read")
		}
	}
	return found
}
