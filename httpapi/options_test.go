package httpapi_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

func TestOptions_FormatRedactsAdminKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := httpapi.Options{AdminKeys: []string{"first-secret", "second-secret"}, Prefix: "/shown"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, options)
		fmt.Fprintf(&out, verb, &options)
		fmt.Fprintf(&out, verb, struct{ Options httpapi.Options }{options})
		fmt.Fprintf(&out, verb, []httpapi.Options{options})
	}
	fmt.Fprintln(&out, options, &options)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "options", options, "pointer", &options)
	}
	for _, secret := range []string{"secret", fmt.Sprintf("%x", "secret"), fmt.Sprintf("%X", "secret")} {
		is.True(!strings.Contains(out.String(), secret))
	}
	is.True(strings.Contains(out.String(), `Prefix:/shown`))
	is.True(strings.Contains(out.String(), `AdminKeys:[[admin key] [admin key]]`))
}
