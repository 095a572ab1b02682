package httpapi_test

import (
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

func TestRegister_NeedsAKeyWithTheScopeByName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithScope })
	issue := func(list ...string) string {
		return string(must(h.options.Keys.Create(t.Context(), keys.Fields{Scopes: scopes(list...)}))(t).Raw)
	}
	unlimited, reader, registrant := issue(), issue("exports:read"), issue("exports:register")
	body := `{"sourceFileUrl":"s","exportedUrl":"` + filesURL + `a.pdf"}`
	register := func(headers ...string) response { return h.send("POST", "/viewer/exports/register", body, headers...) }
	register().wantError(401, "unauthorized")
	register("x-api-key", unlimited).wantError(403, "forbidden")
	register("x-api-key", reader).wantError(403, "forbidden")
	register("x-api-key", registrant).want(201)
	register("x-admin-key", adminKey).want(200)
	register("x-admin-key", adminKey, "x-api-key", reader).want(200) // the admin key decides
	register("x-admin-key", "a wrong admin key", "x-api-key", registrant).wantError(401, "unauthorized")

	token := func(raw string) string {
		body := h.send("POST", "/viewer/tokens", `{"scopes":["exports:register"]}`, "x-api-key", raw).want(201).object()
		return body["token"].(string)
	}
	register("x-api-key", token(unlimited)).wantError(403, "forbidden")
	register("x-api-key", token(registrant)).want(200)

	open := serve(t, func(o *httpapi.Options) {
		o.RegisterWith, o.DangerouslySkipClientKeys = httpapi.RegisterWithScope, true
	})
	open.send("POST", "/viewer/exports/register", body).wantError(403, "forbidden")
	open.admin("POST", "/viewer/exports/register", body).want(201)

	// A name that another has given is for keys that may read.
	named := `{"sourceFileUrl":"s","exportedUrl":"` + filesURL + `a.pdf","fileName":"merger.pdf"}`
	h.admin("POST", "/viewer/exports/register", named).want(200)
	name := func(headers ...string) any {
		return register(headers...).want(200).object()["record"].(map[string]any)["fileName"]
	}
	is.Equal(name("x-api-key", registrant), nil)
	is.Equal(name("x-api-key", issue("exports:register", "exports:read")), "merger.pdf")
	is.Equal(name("x-admin-key", adminKey), "merger.pdf")
	is.Equal(h.send("POST", "/viewer/exports/register", named, "x-api-key", registrant).want(200).object()["record"].(map[string]any)["fileName"], "merger.pdf")
}
