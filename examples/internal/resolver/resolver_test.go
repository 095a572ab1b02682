package resolver_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/resolver"
	"example.com/canvasback/exports"
)

func TestResolve_ErrorsHaveNoURL(t *testing.T) {
	is := is.New(t)
	r := resolver.Resolver{URL: "http://u:password@127.0.0.1:1/?code=secret"}
	_, err := r.Resolve(t.Context(), exports.ResolveRequest{Source: "s"})
	is.True(err != nil && !strings.Contains(err.Error(), "code"))
}
