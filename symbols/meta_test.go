package symbols_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func TestParseMeta(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	service := must(symbols.NewService(memory.New().Symbols(), nil))(t)
	folder := must(service.CreateFolder(t.Context(), "folder"))(t)
	for text, want := range map[string]string{
		" {\"b\" : 1.50,\n\"a\":[ ]} ": `{"b":1.50,"a":[]}`,
		`{"a":"\\u0000"}`:              `{"a":"\\u0000"}`, // a backslash
		`{"a":"\\\u0000"}`:             "",
		`{"\u0000":1}`:                 "",
		`{"a":{"b":1,"b":2}}`:          "",
		"{\"a\":\"\xff\"}":             "",
		`{} {}`:                        "",
		`[]`:                           "",
		``:                             "",
		`{"a":"` + strings.Repeat("a", 16<<10) + `"}`: "",
	} {
		t.Logf("%.100q", text)
		got, err := symbols.ParseMeta([]byte(text))
		is.Equal(got, want)
		is.Equal(errors.Is(err, symbols.ErrInvalid), want == "")
		_, err = service.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "a", Type: "image/svg+xml", Data: "a", Meta: text})
		is.Equal(errors.Is(err, symbols.ErrInvalid), want == "" && text != "")
	}
}

func TestService_RejectsTagsThatNewTagsDoesNotReturn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := must(symbols.NewService(memory.New().Symbols(), nil))(t)
	folder := must(s.CreateFolder(t.Context(), "folder"))(t)
	symbol := symbols.NewSymbol{Name: "name", Type: "a/b", Data: "x"}
	created := must(s.CreateSymbol(t.Context(), folder.ID, symbol))(t)
	for _, text := range []string{"a\x00b\n", "\xff\n", "\n", "a\na\n", "brass", strings.Repeat("a", 65) + "\n"} {
		symbol.Tags = symbols.ParseTags(text)
		is.True(errors.Is(errorOf(s.CreateSymbol(t.Context(), folder.ID, symbol)), symbols.ErrInvalid))
		_, err := s.UpdateSymbol(t.Context(), created.ID, symbols.SymbolFields{Tags: &symbol.Tags}, symbols.Any)
		is.True(errors.Is(err, symbols.ErrInvalid))
	}
}
