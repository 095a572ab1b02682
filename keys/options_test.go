package keys_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestOptions_FormatsWithoutPeppers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := keys.Options{Prefix: "shown", Pepper: []byte("secret"), PreviousPeppers: [][]byte{[]byte("secret too")}}
	service := newService(t, memory.New().Keys(), &options)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, options)
		fmt.Fprintf(&out, verb, &options)
		fmt.Fprintf(&out, verb, struct{ Options keys.Options }{options})
		fmt.Fprintf(&out, verb, service)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "options", options, "service", service)
	}
	for _, verb := range []string{"%s", "%x", "%X", "%d", "%#v"} {
		secret := strings.Trim(fmt.Sprintf(verb, []byte("secret")), "[]byte{}")
		is.True(!strings.Contains(out.String(), secret))
	}
	is.True(strings.Contains(out.String(), "Prefix:shown"))
	is.True(strings.Contains(out.String(), "Peppers:2"))
}
