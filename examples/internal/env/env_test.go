package env_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/env"
)

type settings struct {
	text, path string
	list       []string
	on         bool
	maybe      *bool
	level      int
	wait       time.Duration
}

func (s *settings) table() env.Table {
	return env.Table{
		env.Title("All"),
		env.Var(&s.text, env.Text, "TEXT", "fallback", "any text"),
		env.Var(&s.path, env.Path, "BASE", "/api", "a path").OrEmpty(),
		env.Var(&s.list, env.List, "LIST", "", "elements"),
		env.Var(&s.on, env.Bool, "ON", "true", "a switch"),
		env.Var(&s.maybe, env.OptionalBool, "MAYBE", "", "another"),
		env.Var(&s.level, env.Choice(map[string]int{"low": 1, "high": 2}), "LEVEL", "low", "a choice"),
		env.Var(&s.wait, env.Duration(time.Second, time.Hour), "WAIT", "1m", "a duration"),
	}
}

func (s *settings) read(values map[string]string, check func() error) error {
	return s.table().Read(func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}, check)
}

func TestTable_Read(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	valid := func() error { return nil }
	for _, values := range []map[string]string{nil, {"TEXT": "", "LIST": " ", "ON": "", "MAYBE": "", "LEVEL": " ", "WAIT": ""}} {
		var s settings
		is.NoErr(s.read(values, valid))
		is.Equal(s, settings{text: "fallback", path: "/api", on: true, level: 1, wait: time.Minute})
	}
	var s settings
	no := false
	is.NoErr(s.read(map[string]string{
		"TEXT": " a b ", "BASE": "", "LIST": " x , y,", "ON": "0", "MAYBE": "false", "LEVEL": "high", "WAIT": "90s",
	}, valid))
	is.Equal(s, settings{text: "a b", list: []string{"x", "y"}, maybe: &no, level: 2, wait: 90 * time.Second})

	for name, value := range map[string]string{
		"BASE": "/a?b", "ON": "perhaps", "MAYBE": "perhaps", "LEVEL": "middle", "WAIT": "2h",
	} {
		err := new(settings).read(map[string]string{name: value}, valid)
		is.True(err != nil && strings.HasPrefix(err.Error(), name+": "))
	}
	s = settings{}
	err := s.read(map[string]string{"LIST": "x"}, func() error {
		if s.list != nil {
			return errors.New("not with others")
		}
		return nil
	})
	is.True(err != nil && err.Error() == "LIST: not with others")
}

func TestTable_Usage(t *testing.T) {
	t.Parallel()
	text := new(settings).table().Usage()
	is.New(t).True(strings.Contains(text, "All:\n\n  TEXT   any text (default fallback)\n"))
}
