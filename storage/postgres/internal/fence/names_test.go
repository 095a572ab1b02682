package fence

import (
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
