package frameworks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/storage/memory"
)

// setTelemetry is the example of the package comment of httpapi.
func setTelemetry(options *httpapi.Options, fetchOptions *fetch.Options) {
	options.Observe = func(ctx context.Context, o httpapi.Observation) {
		span := trace.SpanFromContext(ctx)
		span.SetAttributes(
			attribute.String("canvasback.actor", o.Actor),
			attribute.String("canvasback.code", o.Code),
			attribute.Bool("canvasback.aborted", o.Aborted),
		)
		if strings.Contains(o.Route, "{token}") { // the path has a secret
			span.SetAttributes(attribute.String("url.path", o.Route))
		}
	}
	options.RequestID = func(r *http.Request) string {
		if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
			return span.TraceID().String()
		}
		return ""
	}
	fetchOptions.Traceparent = func(ctx context.Context) string {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"]
	}
}

func TestOpenTelemetry_ExampleIsDocumented(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := os.ReadFile("../../doc.go")
	is.NoErr(err)
	source, err := os.ReadFile("otel_test.go")
	is.NoErr(err)
	_, body, ok := strings.Cut(string(source), "fetchOptions *fetch.Options) {\n")
	is.True(ok)
	body, _, _ = strings.Cut(body, "\n}\n")
	is.True(strings.Contains(string(doc), "//"+strings.ReplaceAll(body, "\n", "\n//")+"\n"))
}

func TestOpenTelemetry_SpansAndTraceparent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var fetched http.Header
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched = r.Header
		w.Header().Set("ETag", `"1"`)
		w.Write([]byte("content"))
	}))
	t.Cleanup(origin.Close)
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))

	s := apitest.New(t, func(options *httpapi.Options) {
		options.RegisterWith = httpapi.RegisterWithClientKey
		fetchOptions := fetch.Options{AllowedHosts: []string{strings.TrimPrefix(origin.URL, "http://")}}
		setTelemetry(options, &fetchOptions)
		fetcher, err := fetch.New(&fetchOptions)
		is.NoErr(err)
		options.Exports, err = exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{fetcher}})
		is.NoErr(err)
	})
	api := httpapi.Handler(&s.Options)
	server := httptest.NewServer(otelhttp.NewHandler(api, "canvasback", otelhttp.WithTracerProvider(provider)))
	t.Cleanup(server.Close)
	send := func(method, path, body string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		is.NoErr(err)
		request.Header.Set("x-api-key", string(s.RawKey))
		response, err := http.DefaultClient.Do(request)
		is.NoErr(err)
		response.Body.Close()
		return response
	}
	send("POST", "/viewer/exports/register", `{"sourceFileUrl":"a","exportedUrl":"`+origin.URL+`/a"}`)
	response := send("POST", "/viewer/exports/download", `{"sourceFileUrl":"a"}`)
	is.Equal(response.StatusCode, 200)
	traceID := response.Header.Get("X-Request-Id")
	is.Equal(len(traceID), 32)
	is.True(strings.HasPrefix(fetched.Get("Traceparent"), "00-"+traceID+"-"))
	send("GET", "/viewer/exports/links/secret/a", "")

	untraced := httptest.NewRecorder()
	api.ServeHTTP(untraced, httptest.NewRequest("GET", "/openapi.json", nil))
	id := untraced.Header().Get("X-Request-Id")
	is.Equal(len(id), 36) // that of the library

	ended := spans.Ended()
	is.Equal(len(ended), 3)
	attributes := func(span sdktrace.ReadOnlySpan) map[string]string {
		all := make(map[string]string)
		for _, a := range span.Attributes() {
			all[string(a.Key)] = a.Value.Emit()
		}
		return all
	}
	download, link := attributes(ended[1]), attributes(ended[2])
	is.Equal(ended[1].SpanContext().TraceID().String(), traceID)
	is.Equal(download["canvasback.actor"], "key 1")
	is.Equal(ended[1].Name(), "POST /viewer/exports/download")
	is.Equal(link["canvasback.code"], "not_found")
	for _, value := range link {
		is.True(!strings.Contains(value, "secret"))
	}
}
