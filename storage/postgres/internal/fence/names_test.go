package fence

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestStateOf_ComparesNumberWithNames(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]State{
		``:                             Off,
		`b`:                            Complete,
		` b `:                          Complete,
		`first`:                        Complete, // quoted by the server, but harmless
		`"b"`:                          Complete,
		`FIRST 1 (b)`:                  Complete,
		`FIRST 2 (b, c)`:               Complete,
		`ANY 2 (b, c)`:                 Complete,
		`2 (b,c)`:                      Complete,
		`first 2(b,"c")`:               Complete,
		"ANY\n2\t( b , c )":            Complete,
		`FIRST 2 (b, B)`:               Complete,
		`FIRST 1 (b, B)`:               Complete, // one name, as names are case-insensitive
		`ANY 1 ("a, (1)")`:             Complete,
		`"2 (b, c)"`:                   Complete,
		`ANY 2 ("x""y, z", "3 (q)")`:   Complete,
		`1 (2)`:                        Complete, // a number is a name
		`b, c`:                         Partial,
		`b,"c"`:                        Partial,
		`"b""c", d`:                    Partial,
		`ANY 1 (b, c)`:                 Partial,
		`any 1 (b,c)`:                  Partial,
		`FIRST 1 (b, c)`:               Partial,
		`1 (b, c)`:                     Partial,
		`FIRST 2 (b, c, d)`:            Partial,
		`ANY 2 ("x"", ""y", "z", "w")`: Partial,
		`*`:                            Partial,
		`"*"`:                          Partial,
		`FIRST 1 (*)`:                  Partial,
		`ANY 3 (b, *)`:                 Partial,
	} {
		t.Run(names, func(t *testing.T) { is.New(t).Equal(stateOf(names), want) })
	}
}

// A setting is logged when it is seen first and when it changes; as a warning if a
// failover could be noticed no longer or only in part.
func TestObserve_LogsChanges(t *testing.T) {
	t.Parallel()
	const partial = "b, c"
	for name, test := range map[string]struct {
		mode  Mode
		names []string // of one server after the other
		want  string   // levels and states
	}{
		"off at first":         {Auto, []string{"", ""}, "INFO off"},
		"off later":            {Auto, []string{"b", ""}, "INFO complete, WARN off"},
		"off at first, strict": {Strict, []string{""}, "WARN off"},
		"partial":              {Auto, []string{partial, partial, "b"}, "WARN partial, INFO complete"},
		"partial, always":      {Always, []string{partial}, "WARN partial"},
		"off at first, always": {Always, []string{""}, "INFO complete"},
		"never":                {Never, []string{"b"}, "INFO off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var log strings.Builder
			f := New(Options{Mode: test.mode, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for _, names := range test.names {
				f.observe(t.Context(), names)
			}
			var got []string
			for line := range strings.Lines(log.String()) {
				_, line, _ = strings.Cut(line, "level=")
				level, line, _ := strings.Cut(line, ` msg="failover fence" state=`)
				state, _, _ := strings.Cut(line, " ")
				got = append(got, level+" "+state)
			}
			is.Equal(strings.Join(got, ", "), test.want)
		})
	}
}
