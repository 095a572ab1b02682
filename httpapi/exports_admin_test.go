package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// sourcesIn returns the sources of the exports in a list.
func sourcesIn(r response) string {
	r.t.Helper()
	var records []struct{ SourceFileURL string }
	r.want(200).into(&records)
	var sources []string
	for _, record := range records {
		sources = append(sources, record.SourceFileURL)
	}
	return strings.Join(sources, " ")
}

func TestExportsAdmin_ListsPages(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.admin("GET", "/admin/exports", "").wantBody(200, "[]")
	for _, source := range []string{"b/plan", "a/plan", "a/plan%20x", "A/PLAN_é", "c"} {
		h.register(source, "plan.pdf", "x")
	}
	for query, want := range map[string][2]string{
		"":                                {"b/plan a/plan a/plan%20x A/PLAN_é c", ""},
		"?limit=5":                        {"b/plan a/plan a/plan%20x A/PLAN_é c", ""},
		"?limit=2":                        {"b/plan a/plan", `<?limit=2&after=2>; rel="next"`},
		"?limit=2&after=2":                {"a/plan%20x A/PLAN_é", `<?limit=2&after=4>; rel="next"`},
		"?limit=2&after=4":                {"c", ""},
		"?after=9":                        {"", ""},
		"?q=":                             {"b/plan a/plan a/plan%20x A/PLAN_é c", ""},
		"?q=a/plan":                       {"a/plan a/plan%20x", ""},
		"?limit=1&q=a%2Fpl&x=":            {"a/plan", `<?limit=1&after=2&q=a%2Fpl&x=>; rel="next"`},
		"?q=%25":                          {"a/plan%20x", ""},
		"?q=a/plan%2520x":                 {"a/plan%20x", ""},
		"?q=_":                            {"A/PLAN_é", ""},
		"?q=%C3%A9":                       {"A/PLAN_é", ""},
		"?q=a/PLAN":                       {"", ""},
		"?q=" + strings.Repeat("x", 8192): {"", ""},
	} {
		response := h.admin("GET", "/admin/exports"+query, "")
		t.Logf("%.60s", query)
		is.New(t).Equal(sourcesIn(response), want[0])
		response.wantHeaders("Link", want[1])
	}
	for query, name := range map[string]string{
		"?limit=0": "limit", "?limit=1001": "limit", "?after=-1": "after", "?after=1&after=1": "after",
		"?q=a&q=a": "q", "?q=%zz": "q", "?q=a%00": "q", "?q=%ff": "q", "?q=" + strings.Repeat("x", 8193): "q",
	} {
		h.admin("GET", "/admin/exports"+query, "").wantInvalid(name + " ")
	}
	h.admin("HEAD", "/admin/exports?limit=1", "").want(200).wantHeaders("Link", `<?limit=1&after=1>; rel="next"`)
}

func TestExportsAdmin_ListHasDefaultLimit(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for i := range 101 {
		h.register(fmt.Sprint(i), "plan.pdf", "x")
	}
	first := h.admin("GET", "/admin/exports?q=", "")
	is.Equal(len(first.array()), 100)
	first.wantHeaders("Link", `<?limit=100&after=100&q=>; rel="next"`)
	is.Equal(sourcesIn(h.admin("GET", "/admin/exports?limit=100&after=100&q=", "")), "100")
	plain := h.admin("GET", "/admin/exports", "").want(200)
	zipped := h.send("GET", "/admin/exports", "", "x-admin-key", adminKey, "Accept-Encoding", "gzip").want(200)
	zipped.wantHeaders("Content-Encoding", "gzip")
	plain.wantHeaders("Vary", "Accept-Encoding")
	is.Equal(string(zipped.body), string(plain.body))
}

func TestExportsAdmin_GetAndDelete(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.register("s", "plan.pdf", "x")
	const record = `{"id":1,"sourceFileUrl":"s","exportedUrl":"https://files.example/out/plan.pdf","fileName":null,` +
		`"createdAt":"2026-03-30T10:00:00.123Z","updatedAt":"2026-03-30T10:00:00.123Z","registeredBy":1}`
	h.admin("GET", "/admin/exports/1", "").wantBody(200, record)
	h.admin("GET", "/admin/exports", "").wantBody(200, "["+record+"]")
	for _, method := range []string{"GET", "DELETE"} {
		h.admin(method, "/admin/exports/2", "").wantError(404, "not_found")
		h.admin(method, "/admin/exports/01", "").wantError(400, "invalid_request")
	}
	is.True(h.admin("DELETE", "/admin/exports/1", "").want(200).object()["message"] != "")
	h.admin("DELETE", "/admin/exports/1", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download", exportBody("s")).wantError(404, "not_found")

	// A source that is registered again is new.
	again := h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/plan.pdf"}`).want(201).object()
	is.Equal(again["record"].(map[string]any)["id"], 2.0)
}

// unconfirmedDeletions cannot confirm that it has deleted an export.
type unconfirmedDeletions struct{ exports.Store }

func (s unconfirmedDeletions) Delete(ctx context.Context, id int64) error {
	s.Store.Delete(ctx, id)
	return errors.New("the standby is lost")
}

// TestExportsAdmin_RepeatedDeletionIsNotConfirmedEither repeats a deletion that has changed
// only a primary without its standby.
func TestExportsAdmin_RepeatedDeletionIsNotConfirmedEither(t *testing.T) {
	t.Parallel()
	store := unconfirmedDeletions{memory.New().Exports()}
	h := serve(t, func(o *httpapi.Options) { o.Exports = must(exports.NewService(store, nil))(t) })
	store.Put(t.Context(), exports.Export{SourceURL: "a"}, exports.PutRule{})
	for range 2 {
		h.admin("DELETE", "/admin/exports/1", "").wantError(503, "unavailable")
	}
}

func TestExportsAdmin_ShowsRegistrant(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	registrant := func(h *harness) any { return h.admin("GET", "/admin/exports/1", "").want(200).object()["registeredBy"] }
	const body = `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/a.pdf"}`

	h := serve(t)
	other := h.keyOf("")
	h.client("POST", "/viewer/exports/register", body).want(201)
	is.Equal(registrant(h), 1.0)
	h.send("POST", "/viewer/exports/register", body, "x-api-key", other).want(200)
	is.Equal(registrant(h), 2.0)
	h.export("s", filesURL+"a.pdf")
	is.Equal(registrant(h), nil) // the application

	h = serve(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey })
	h.admin("POST", "/viewer/exports/register", body).want(201)
	is.Equal(registrant(h), nil)
	for login, want := range map[string]string{ // names of others
		"key 1": "admin key 1",
		"M\xfcller\n\x00" + strings.Repeat("é", 9000): "M\uFFFDller" + strings.Repeat("é", 247),
		"anyone":                          "admin anyone",
		"key " + strings.Repeat("é", 251): "admin key " + strings.Repeat("é", 245),
	} {
		h = serve(t, func(o *httpapi.Options) {
			o.RegisterWith = httpapi.RegisterWithAdminKey
			o.AdminKeys = nil
			o.AuthenticateAdmin = func(*http.Request) (string, error) { return login, nil }
		})
		h.admin("POST", "/viewer/exports/register", body).want(201)
		is.Equal(registrant(h), nil)
		export := must(h.options.Exports.Get(t.Context(), 1))(t)
		is.Equal(export.RegisteredBy, want)
	}
	h = serve(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys = true })
	h.send("POST", "/viewer/exports/register", body).want(201)
	is.Equal(registrant(h), nil)
}

func TestExports_RegisterOwnOnly(t *testing.T) {
	t.Parallel()
	body := func(source string) string {
		return `{"sourceFileUrl":"` + source + `","exportedUrl":"https://files.example/out/a.pdf"}`
	}
	h := serve(t, func(o *httpapi.Options) { o.RegisterOwnOnly = true })
	other := h.keyOf("")
	h.export("of the application", filesURL+"a.pdf")
	h.client("POST", "/viewer/exports/register", body("s")).want(201)
	h.client("POST", "/viewer/exports/register", body("s")).want(200)
	h.client("POST", "/viewer/exports/register", body("of the application")).wantError(403, "forbidden")
	register := func(body string) response {
		return h.send("POST", "/viewer/exports/register", body, "x-api-key", other)
	}
	register(body("s")).wantError(403, "forbidden")
	register(body("")).wantError(400, "invalid_request")
	register(body("t")).want(201)
	h.admin("DELETE", "/admin/exports/2", "").want(200)
	register(body("s")).want(201)

	// It does not apply to an administrator.
	h = serve(t, func(o *httpapi.Options) { o.RegisterOwnOnly, o.RegisterWith = true, httpapi.RegisterWithAdminKey })
	h.export("s", filesURL+"a.pdf")
	h.admin("POST", "/viewer/exports/register", body("s")).want(200)

	// Without keys, anyone may replace what anyone has registered.
	h = serve(t, func(o *httpapi.Options) { o.RegisterOwnOnly, o.DangerouslySkipClientKeys = true, true })
	h.export("of the application", filesURL+"a.pdf")
	h.send("POST", "/viewer/exports/register", body("of the application")).wantError(403, "forbidden")
	h.send("POST", "/viewer/exports/register", body("s")).want(201)
	h.send("POST", "/viewer/exports/register", body("s")).want(200)
}

func TestExportsAdmin_ChecksFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.register("s", "plan ä.pdf", "%PDF-1.7")
	check := func(path, body string) string {
		text := string(h.admin("POST", path, body).want(200).body)
		before, _, _ := strings.Cut(text, `,"durationMs":`)
		return before
	}
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"named","exportedUrl":"https://files.example/out/plan%20%C3%A4.pdf","fileName":"../x.pdf"}`).want(201)
	h.register("json", "data.json", "{}")
	for _, body := range []string{"", "[", `{"a":1}`} { // ignored
		is.Equal(check("/admin/exports/1/check", body), `{"ok":true,"size":8,"type":"application/pdf","fileName":"plan ä.pdf","resumable":true`)
	}
	is.Equal(check("/admin/exports/2/check", ""), `{"ok":true,"size":8,"type":"application/pdf","fileName":".._x.pdf","resumable":true`)
	is.Equal(check("/admin/exports/3/check", ""), `{"ok":true,"size":2,"type":"application/octet-stream","fileName":"data.json","resumable":true`)
	delete(h.files, "plan ä.pdf")
	is.Equal(check("/admin/exports/1/check", ""), `{"ok":false,"code":"export_failed","reason":"https://files.example/out/plan%20%C3%A4.pdf does not exist"}`)
	h.wantLog("export check failed")
	h.admin("POST", "/admin/exports/9/check", "").wantError(404, "not_found")
	h.admin("POST", "/admin/exports/x/check", "").wantError(400, "invalid_request")
}

// openChecked opens files as the path of their URL asks for.
func openChecked(ctx context.Context, u *url.URL) (*exports.File, error) {
	switch u.Path {
	case "/forbidden":
		return nil, exports.ErrForbidden
	case "/refused":
		return nil, errors.New("dial tcp 10.0.0.7:443: connection refused")
	case "/known":
		return nil, fmt.Errorf("secret: %w", &exports.CauseError{Cause: "the connection is refused", Err: errors.New("10.0.0.7")})
	case "/slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "/broken":
		return &exports.File{Body: io.NopCloser(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errors.New("secret cause")))), Size: 10_000}, nil
	case "/short":
		return &exports.File{Body: io.NopCloser(strings.NewReader("x")), Size: 2}, nil
	}
	return &exports.File{Body: io.NopCloser(strings.NewReader("content")), Size: -1, Validator: "v"}, nil
}

func TestExportsAdmin_CheckReportsFailures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, withExports(exports.Options{Openers: []exports.Opener{openerFunc(openChecked)}, OpenTimeout: time.Second}))
	for path, want := range map[string]string{
		"/forbidden": `"export_failed","reason":"https://files.example/forbidden is not allowed"`,
		"/refused":   `"export_failed","reason":"https://files.example/refused cannot be fetched"`,
		"/known":     `"export_failed","reason":"https://files.example/known cannot be fetched: the connection is refused"`,
		"/slow":      `"export_timeout","reason":"https://files.example/slow takes too long"`,
		"/broken":    `"export_failed","reason":"https://files.example/broken cannot be fetched"`,
		"/short":     `"export_failed","reason":"https://files.example/short cannot be fetched"`,
	} {
		export := h.export(path, "https://files.example"+path+"?token=secret#fragment")
		h.admin("POST", fmt.Sprintf("/admin/exports/%d/check", export.ID), "").wantBody(200, `{"ok":false,"code":`+want+`}`)
	}
	is.True(!strings.Contains(h.log.String(), "token=secret"))
	is.Equal(strings.Count(h.log.String(), `level=WARN msg="export check failed" method=POST route=/admin/exports/{id}/check status=200 `), 6)
	is.True(!strings.Contains(h.log.String(), "request failed")) // the response was 200
	export := h.export("s", "https://files.example/a")
	body := h.admin("POST", fmt.Sprintf("/admin/exports/%d/check", export.ID), "").want(200).object()
	is.Equal([]any{body["ok"], body["size"], body["resumable"]}, []any{true, nil, false}) // of unknown size
}

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
