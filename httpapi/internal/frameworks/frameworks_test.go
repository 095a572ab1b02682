package frameworks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	echo4 "github.com/labstack/echo/v4"
	echo4middleware "github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	echo5middleware "github.com/labstack/echo/v5/middleware"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/storage/memory"
)

// logs receives what the frameworks log.
var logs syncBuffer

func TestMain(m *testing.M) {
	gin.DefaultWriter, gin.DefaultErrorWriter = &logs, &logs
	os.Exit(m.Run())
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// frameworks mount an API with the prefix /api and routes of an application, with
// the framework's own logging and recovery:
//
//	/things/7       RequireClientKey
//	/own/7          Authenticate
//	/panic          Authenticate, then a panic
//	/required/api/  RequireClientKey in front of the API
//	/nested/api/    Authenticate in front of the API
var frameworks = map[string]func(api *httpapi.API) http.Handler{
	"net/http": func(api *httpapi.API) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/api/", api)
		mux.Handle("/things/{id}", api.RequireClientKey(hello))
		mux.Handle("/own/{id}", authenticated(api)(hello))
		mux.Handle("/panic", authenticated(api)(panicking))
		mux.Handle("/required/", http.StripPrefix("/required", api.RequireClientKey(api)))
		mux.Handle("/nested/", http.StripPrefix("/nested", authenticated(api)(api)))
		return mux
	},
	"gin": func(api *httpapi.API) http.Handler {
		authenticate := func(c *gin.Context) {
			r, ok := api.Authenticate(c.Writer, c.Request)
			if !ok {
				c.Abort()
				return
			}
			c.Request = r
		}
		router := gin.Default()
		router.Any("/api/*path", gin.WrapH(api))
		router.GET("/things/:id", gin.WrapH(api.RequireClientKey(hello)))
		router.GET("/own/:id", authenticate, gin.WrapH(hello))
		router.GET("/panic", authenticate, gin.WrapH(panicking))
		router.Any("/required/*path", gin.WrapH(http.StripPrefix("/required", api.RequireClientKey(api))))
		router.Any("/nested/*path", authenticate, gin.WrapH(http.StripPrefix("/nested", api)))
		return router
	},
	"echo/v4": func(api *httpapi.API) http.Handler {
		authenticate := func(next echo4.HandlerFunc) echo4.HandlerFunc {
			return func(c echo4.Context) error {
				r, ok := api.Authenticate(c.Response(), c.Request())
				if !ok {
					return nil
				}
				c.SetRequest(r)
				return next(c)
			}
		}
		router := echo4.New()
		router.Logger.SetOutput(&logs)
		router.Use(echo4middleware.RequestLoggerWithConfig(echo4middleware.RequestLoggerConfig{
			LogValuesFunc: func(c echo4.Context, _ echo4middleware.RequestLoggerValues) error {
				_, err := fmt.Fprintln(&logs, c.Request().Header)
				return err
			},
		}), echo4middleware.Recover())
		router.Any("/api/*", echo4.WrapHandler(api))
		router.GET("/things/:id", echo4.WrapHandler(api.RequireClientKey(hello)))
		router.GET("/own/:id", echo4.WrapHandler(hello), authenticate)
		router.GET("/panic", echo4.WrapHandler(panicking), authenticate)
		router.Any("/required/*", echo4.WrapHandler(http.StripPrefix("/required", api.RequireClientKey(api))))
		router.Any("/nested/*", echo4.WrapHandler(http.StripPrefix("/nested", api)), authenticate)
		return router
	},
	"echo/v5": func(api *httpapi.API) http.Handler {
		authenticate := func(next echo5.HandlerFunc) echo5.HandlerFunc {
			return func(c *echo5.Context) error {
				r, ok := api.Authenticate(c.Response(), c.Request())
				if !ok {
					return nil
				}
				c.SetRequest(r)
				return next(c)
			}
		}
		router := echo5.New()
		router.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		router.Use(echo5middleware.RequestLogger(), echo5middleware.Recover())
		router.Any("/api/*", echo5.WrapHandler(api))
		router.GET("/things/:id", echo5.WrapHandler(api.RequireClientKey(hello)))
		router.GET("/own/:id", echo5.WrapHandler(hello), authenticate)
		router.GET("/panic", echo5.WrapHandler(panicking), authenticate)
		router.Any("/required/*", echo5.WrapHandler(http.StripPrefix("/required", api.RequireClientKey(api))))
		router.Any("/nested/*", echo5.WrapHandler(http.StripPrefix("/nested", api)), authenticate)
		return router
	},
	"chi": func(api *httpapi.API) http.Handler {
		router := chi.NewRouter()
		router.Use(chimiddleware.RequestLogger(&chimiddleware.DefaultLogFormatter{Logger: slog.NewLogLogger(slog.NewTextHandler(&logs, nil), slog.LevelInfo)}),
			chimiddleware.Recoverer, chimiddleware.Compress(5))
		router.Mount("/api", api)
		router.With(api.RequireClientKey).Handle("/things/{id}", hello)
		router.With(authenticated(api)).Handle("/own/{id}", hello)
		router.With(authenticated(api)).Handle("/panic", panicking)
		router.With(api.RequireClientKey).Mount("/required", http.StripPrefix("/required", api))
		router.With(authenticated(api)).Mount("/nested", http.StripPrefix("/nested", api))
		return router
	},
}

// authenticated is a middleware of Authenticate.
func authenticated(api *httpapi.API) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r, ok := api.Authenticate(w, r); ok {
				next.ServeHTTP(w, r)
			}
		})
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	key, _ := httpapi.KeyFromContext(r.Context())
	fmt.Fprint(w, "hello ", key.Name)
})

var panicking = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug of the application") })

// server is one framework on a loopback address.
type server struct {
	*httptest.Server
	rawKey   string
	adminKey string // not that of other servers
}

// serve starts a framework. The source "s" is an export that fails after 3 MiB,
// which is more than any prefetch.
func serve(t *testing.T, mount func(*httpapi.API) http.Handler, configure func(*httptest.Server)) *server {
	t.Helper()
	is := is.New(t)
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{truncatedOpener{}}})
	is.NoErr(err)
	_, _, err = service.Register(t.Context(), exports.Registration{
		SourceURL: "s", ExportedURL: "https://files.example/s",
	})
	is.NoErr(err)
	fixture := apitest.New(t, func(o *httpapi.Options) {
		o.Prefix, o.Exports, o.AdminKeys = "/api", service, []string{"admin key of " + t.Name()}
	})
	api, err := httpapi.New(&fixture.Options)
	is.NoErr(err)
	s := &server{httptest.NewUnstartedServer(httpapi.HideKeys(mount(api))), string(fixture.RawKey), fixture.Options.AdminKeys[0]}
	s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&logs, nil), slog.LevelInfo)
	configure(s.Server)
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// truncatedOpener opens files of unknown size whose Read fails after 3 MiB.
type truncatedOpener struct{}

func (truncatedOpener) Serves(*url.URL) bool { return true }
func (truncatedOpener) Check(*url.URL) error { return nil }
func (truncatedOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	body := io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))
	return &exports.File{Body: io.NopCloser(body), Size: -1}, nil
}

// send sends a GET request with the headers given as pairs.
func (s *server) send(t *testing.T, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	is := is.New(t)
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
	is.NoErr(err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.Client().Do(request)
	is.NoErr(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	is.NoErr(err)
	return response, string(content)
}

// eachFramework runs a subtest for every framework.
func eachFramework(t *testing.T, test func(*testing.T, *server)) {
	for name, mount := range frameworks {
		t.Run(name, func(t *testing.T) { test(t, serve(t, mount, func(*httptest.Server) {})) })
	}
}

func TestFrameworks_Authenticate(t *testing.T) {
	eachFramework(t, func(t *testing.T, s *server) {
		is := is.New(t)
		for path, want := range map[string]string{
			"/things/7": "hello apitest", "/own/7": "hello apitest", "/api/symbol/folders": "[]",
		} {
			response, body := s.send(t, path, "x-api-key", s.rawKey)
			is.Equal(response.StatusCode, 200)
			is.Equal(body, want)
			for _, headers := range [][]string{nil, {"x-api-key", "wrong"}} {
				response, body = s.send(t, path, headers...)
				is.Equal(response.StatusCode, 401)
				is.True(strings.Contains(body, `"code":"unauthorized"`))
				is.True(strings.Contains(body, `"requestId":"`+response.Header.Get("X-Request-Id")))
			}
		}
	})
}

// TestFrameworks_TruncationShows aborts downloads in the middle. The client must
// not take what it has received for complete.
func TestFrameworks_TruncationShows(t *testing.T) {
	for name, mount := range frameworks {
		for _, connContext := range []bool{false, true} {
			for _, version := range []string{"1.0", "1.1", "2"} {
				t.Run(fmt.Sprintf("%s/HTTP %s/ConnContext %v", name, version, connContext), func(t *testing.T) {
					is := is.New(t)
					s := serve(t, mount, func(server *httptest.Server) {
						server.EnableHTTP2 = version == "2"
						if connContext {
							httpapi.ConfigureServer(server.Config)
						}
					})
					for path, body := range map[string]string{
						"/api/viewer/exports/download":       `{"sourceFileUrl":"s"}`,
						"/api/viewer/exports/download-batch": `{"items":[{"sourceFileUrl":"s"}]}`,
					} {
						t.Log(path)
						_, err := s.download(t, version, path, body)
						is.True(err != nil) // a truncated response does not end like a complete one
					}
				})
			}
		}
	}
}

// download returns how many bytes of the body the client receives, and the error
// that ends it.
func (s *server) download(t *testing.T, version, path, body string) (int64, error) {
	t.Helper()
	is := is.New(t)
	var response *http.Response
	if version == "2" {
		request, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(body))
		is.NoErr(err)
		request.Header.Set("x-api-key", s.rawKey)
		if response, err = s.Client().Do(request); err != nil {
			return 0, err
		}
		defer response.Body.Close()
	} else {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		is.NoErr(err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "POST %s HTTP/%s\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, version, s.rawKey, len(body), body)
		if response, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			return 0, err // reset before the header was read
		}
	}
	if response.StatusCode != 200 || response.ProtoMajor != int(version[0]-'0') {
		t.Fatalf("%s: %s %s", path, response.Proto, response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}

// TestFrameworks_LogNoKeys provokes what frameworks log with the request header:
// panics, gin's also those with http.ErrAbortHandler.
func TestFrameworks_LogNoKeys(t *testing.T) {
	eachFramework(t, func(t *testing.T, s *server) {
		const download = "/api/viewer/exports/download"
		for path, method := range map[string]string{
			"/panic": "GET", download: "POST", "/required" + download: "POST", "/nested" + download: "POST",
		} {
			body := strings.NewReader(`{"sourceFileUrl":"s"}`)
			request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
			is.New(t).NoErr(err)
			request.Header.Set("x-api-key", s.rawKey)
			request.Header.Set("x-admin-key", s.adminKey)
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		s.Close() // all handlers have returned
		for _, secret := range []string{s.rawKey, s.adminKey} {
			if text := logs.String(); strings.Contains(text, secret) {
				t.Errorf("a key is in the log: %.1000s", text[max(0, strings.Index(text, secret)-500):])
			}
		}
	})
}

// TestFrameworks_Nested has RequireClientKey and Authenticate in front of the API
// itself.
func TestFrameworks_Nested(t *testing.T) {
	eachFramework(t, func(t *testing.T, s *server) {
		for _, prefix := range []string{"/required", "/nested"} {
			for _, c := range []struct {
				path    string
				headers []string
				status  int
			}{
				{"/api/symbol/folders", []string{"x-api-key", s.rawKey}, 200},
				{"/api/symbol/folders", []string{"x-api-key", s.rawKey, "x-admin-key", "wrong"}, 200},
				{"/api/symbol/folders", []string{"x-api-key", "wrong"}, 401},
				{"/api/admin/api-keys", []string{"x-api-key", s.rawKey, "x-admin-key", s.adminKey}, 200},
				{"/api/admin/api-keys", []string{"x-api-key", s.rawKey, "x-admin-key", "wrong"}, 401},
				{"/api/admin/api-keys", []string{"x-api-key", s.rawKey}, 401},
				{"/api/admin/api-keys", []string{"x-admin-key", s.adminKey}, 401},
			} {
				response, body := s.send(t, prefix+c.path, c.headers...)
				if response.StatusCode != c.status {
					t.Errorf("%s%s with %q: status is %d, want %d: %s", prefix, c.path, c.headers, response.StatusCode, c.status, body)
				}
			}
		}
	})
}
