package httpapi_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"example.com/canvasback/httpapi"
)

func TestOptions_FormatRedactsAdminKeys(t *testing.T) {
	t.Parallel()
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
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in %s", secret, &out)
		}
	}
	if !strings.Contains(out.String(), `Prefix:/shown`) || !strings.Contains(out.String(), `AdminKeys:[[admin key] [admin key]]`) {
		t.Errorf("other options are missing: %s", &out)
	}
}
