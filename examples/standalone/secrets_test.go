package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/tracelog"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

const (
	firstAdminKey  = "first-admin-key-of-the-test"
	secondAdminKey = "second-admin-key-of-the-test"
	userSecret     = "password-in-a-url"
	querySecret    = "signature-in-a-query"
)

// leakTest sends valid and invalid requests to a server and searches everything
// that the server writes for secrets.
type leakTest struct {
	*server
	keys      *scanner // only the responses that issue a key may contain it
	urls      *scanner // secrets in URLs, which no log may contain
	origin    string   // URL of the origin server of exported files
	responses strings.Builder
}

func newLeakTest(s *server, origin string) *leakTest {
	l := &leakTest{server: s, keys: new(scanner), urls: new(scanner), origin: origin}
	l.keys.add("an admin key", firstAdminKey)
	l.keys.add("another admin key", secondAdminKey)
	l.urls.add("the password of a URL", userSecret)
	l.urls.add("the signature of a URL", querySecret)
	return l
}

// failingOrigin starts an origin server whose responses are all errors.
func failingOrigin(t *testing.T) (url, host string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://10.0.0.1/?s="+querySecret, http.StatusFound)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/truncated":
			w.Header().Set("Content-Length", "1000000")
			w.Write(make([]byte, 500_000))
		default:
			http.Error(w, r.URL.String(), http.StatusForbidden)
		}
	}))
	t.Cleanup(origin.Close)
	return origin.URL, strings.TrimPrefix(origin.URL, "http://")
}

// issueKey sends a request whose response contains a raw key.
func (l *leakTest) issueKey(status int, path string) string {
	l.t.Helper()
	raw := l.sendJSON(status, "POST", path, "", "x-admin-key", secondAdminKey)["apiKey"].(string)
	l.keys.addRaw("the raw key of "+path, raw)
	return raw
}

// record sends a request whose response must not contain a secret.
func (l *leakTest) record(method, path, body string, headers ...string) {
	l.t.Helper()
	status, content := l.send(method, path, body, headers...)
	fmt.Fprintf(&l.responses, "%d %s\n", status, content)
}

// sendAll sends valid and invalid requests with keys in every place.
func (l *leakTest) sendAll() {
	l.t.Helper()
	raws := []string{l.issueKey(201, "/admin/api-keys"), l.issueKey(201, "/admin/api-keys"), l.issueKey(201, "/admin/api-keys")}
	rotated := l.issueKey(200, "/admin/api-keys/1/rotate")
	l.record("PATCH", "/admin/api-keys/2", `{"isActive":false}`, "x-admin-key", firstAdminKey)
	l.record("DELETE", "/admin/api-keys/3", "", "x-admin-key", firstAdminKey)
	l.record("GET", "/admin/api-keys", "", "x-admin-key", firstAdminKey)
	l.record("GET", "/admin/api-keys/1", "", "x-admin-key", firstAdminKey)
	for _, raw := range append(raws, rotated, firstAdminKey, secondAdminKey) {
		for _, header := range []string{"x-api-key", "x-admin-key", "Authorization", "X-Access-Token", "Cookie", "Origin", "Referer", "If-None-Match", "Content-Type"} {
			for _, value := range []string{raw, "Bearer " + raw, raw + "x", `"` + raw + `"`} {
				l.record("GET", "/symbol/folders", "", header, value)
				l.record("GET", "/admin/api-keys/x", "", header, value)
			}
		}
		for _, path := range []string{"/symbol/folders?x-api-key=" + raw, "/symbol/folders/" + raw, "/" + raw, "/viewer/exports/download?responseType=" + raw} {
			l.record("GET", strings.ReplaceAll(path, " ", "%20"), "", "x-api-key", rotated)
			l.record("POST", strings.ReplaceAll(path, " ", "%20"), "{}", "x-api-key", rotated)
		}
		l.record(strings.ReplaceAll(raw, " ", "")[:10], "/symbol/folders", "")
		for _, body := range []string{`{"apiKey":"` + raw + `"}`, `{"apiKey":"` + raw + `"`, `"` + raw + `"`, `{"name":5,"x":"` + raw + `"}`, `{"expiresAt":"` + raw + `"}`} {
			l.record("POST", "/symbol/folders", body, "x-api-key", rotated)
			l.record("PATCH", "/admin/api-keys/1", body, "x-admin-key", firstAdminKey)
		}
	}
	l.sendJSON(201, "POST", "/symbol/folders", `{"name":"A"}`, "x-api-key", rotated)
	l.sendExports(rotated)
}

// sendExports registers URLs that contain secrets and tries to download them.
func (l *leakTest) sendExports(raw string) {
	l.t.Helper()
	rejected := []string{
		"https://user:" + userSecret + "@viewer.example/", "http://10.0.0.1/?s=" + querySecret, "ftp://viewer.example/?s=" + querySecret, "https://viewer.example:99999/?s=" + querySecret,
		"https://" + userSecret + ":x:y@[/", "https://viewer.example/%zz?s=" + querySecret,
	}
	for _, exported := range rejected {
		l.t.Log(exported)
		body := l.sendText(400, "POST", "/viewer/exports/register", registration("s", exported), "x-api-key", raw)
		l.urls.check(l.t, "error response", body)
	}
	for _, kind := range []string{"status", "redirect", "reset", "truncated"} {
		source := "https://user:" + userSecret + "@viewer.example/" + kind + "?s=" + querySecret
		l.register(source, l.origin+"/"+kind+"?s="+querySecret, "x-api-key", raw)
		for path, body := range map[string]string{"download": single(source), "download-batch": batch(source)} {
			url := l.url + "/viewer/exports/" + path
			request := must(http.NewRequestWithContext(l.t.Context(), "POST", url, strings.NewReader(body)))(l.t)
			request.Header.Set("x-api-key", raw)
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
				response.Body.Close()
			}
		}
	}
}

// check searches the recorded responses, the log and the database.
func (l *leakTest) check(log, databaseURL string) {
	l.t.Helper()
	l.keys.check(l.t, "responses", l.responses.String())
	l.keys.check(l.t, "log", log)
	l.urls.check(l.t, "log", log)
	l.keys.check(l.t, "database", contents(l.t, databaseURL))
	for _, want := range []string{"request failed", "files skipped", "retrying fetch"} {
		l.t.Log(want)
		is.New(l.t).True(strings.Contains(log, want)) // the test has covered it
	}
}

func TestServer_LeaksNoSecrets(t *testing.T) {
	t.Parallel()
	eachPersistentDatabase(t, func(t *testing.T, databaseURL string) {
		origin, host := failingOrigin(t)
		s := startServer(t, map[string]string{
			"DATABASE_URL": databaseURL, "ADMIN_API_KEY": firstAdminKey + "," + secondAdminKey, "EXPORT_ALLOWED_HOSTS": host, "DEMO": "false",
		})
		l := newLeakTest(s, origin)
		l.sendAll()
		l.check(s.log.String(), databaseURL) // while the server runs: includes the write-ahead log
		l.keys.check(t, "banner", s.banner)
		is.New(t).NoErr(s.stop())
		l.check(s.log.String(), databaseURL)
	})
}

func TestServer_PrintsGeneratedKeysOnlyInBanner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "canvasback.db")
	s := startServer(t, map[string]string{"DATABASE_URL": "sqlite:" + path})
	var secrets scanner
	admin, client := s.bannerKeys()
	secrets.add("the admin key", admin)
	secrets.addRaw("the client key", client)
	is.New(t).Equal(len(secrets.find(s.banner)), 2)
	s.sendJSON(200, "GET", "/admin/api-keys/1", "", "x-admin-key", admin)
	s.send("GET", "/symbol/folders", "", "x-api-key", client)
	s.send("GET", "/symbol/folders", "", "x-api-key", client+"x")
	s.send("GET", "/nope", "", "x-admin-key", client)
	secrets.check(t, "log", s.log.String())
	secrets.check(t, "database", contents(t, "sqlite:"+path))
}

// failingKeys is a key store that returns errors or panics, with its arguments in
// the text.
type failingKeys struct {
	keys.Store
	mode *atomic.Int32
}

const (
	failWithError int32 = iota + 1
	failWithPanic
)

func (s failingKeys) fail(args ...any) error {
	switch text := fmt.Sprintf("%v %+v %#v %s", args, args, args, args); s.mode.Load() {
	case failWithError:
		return errors.New("no connection: " + text)
	case failWithPanic:
		panic("a bug: " + text)
	}
	return nil
}

func (s failingKeys) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if err := s.fail(digest); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Find(ctx, digest)
}

func (s failingKeys) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	if err := s.fail(key); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Insert(ctx, key)
}

func (s failingKeys) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return s.Store.Update(ctx, ids, func(list []keys.Key) error {
		if err := change(list); err != nil {
			return err
		}
		return s.fail(list)
	})
}

// TestApplication_LeaksNoSecrets uses an application that traces its database
// queries, formats every value of the library, and has a failing key store.
func TestApplication_LeaksNoSecrets(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	const pepper = "pepper-outside-the-database"
	databaseURL := pgtest.Database(t)
	trace, log, observed := new(syncBuffer), new(syncBuffer), new(syncBuffer)
	config := must(pgxpool.ParseConfig(databaseURL))(t)
	config.ConnConfig.Tracer = &tracelog.TraceLog{LogLevel: tracelog.LogLevelTrace, Logger: tracelog.LoggerFunc(
		func(_ context.Context, level tracelog.LogLevel, message string, data map[string]any) {
			fmt.Fprintf(trace, "%s %s %v %#v\n", level, message, data, data)
		})}
	pool := must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	db := must(postgres.New(pool, nil))(t)
	is.NoErr(db.Migrate(t.Context()))
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	origin, host := failingOrigin(t)
	mode := new(atomic.Int32)
	keyOptions := keys.Options{Pepper: []byte(pepper), PreviousPeppers: [][]byte{[]byte("previous " + pepper)}, Logger: logger}
	clientKeys := must(keys.NewService(failingKeys{db.Keys(), mode}, &keyOptions))(t)
	symbolService := must(symbols.NewService(db.Symbols(), nil))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { clientKeys.Run(ctx) })
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	fetcher := must(fetch.New(&fetch.Options{AllowedHosts: []string{host}, Logger: logger}))(t)
	exportService := must(exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetcher}}))(t)
	options := httpapi.Options{
		Keys:      clientKeys,
		Symbols:   symbolService,
		Exports:   exportService,
		AdminKeys: []string{firstAdminKey, secondAdminKey},

		RegisterWith: httpapi.RegisterWithClientKey,

		Observe: func(_ context.Context, o httpapi.Observation) { fmt.Fprintf(observed, "%+v %#v\n", o, o) },
		Logger:  logger,
	}
	handler := httpapi.Handler(&options)
	web := httptest.NewUnstartedServer(handler)
	web.Config.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	web.Start()
	t.Cleanup(web.Close)

	l := newLeakTest(&server{t: t, url: web.URL}, origin)
	l.keys.add("the pepper", pepper)
	l.sendAll()
	issued := must(clientKeys.Create(t.Context(), keys.Fields{}))(t)
	raw := string(issued.Raw)
	l.keys.addRaw("a raw key from Service.Create", raw)
	for _, failure := range []int32{failWithError, failWithPanic} {
		mode.Store(failure)
		l.record("POST", "/admin/api-keys", `{}`, "x-admin-key", firstAdminKey)
		l.record("POST", "/admin/api-keys/1/rotate", ``, "x-admin-key", firstAdminKey)
		l.record("GET", "/symbol/folders", ``, "x-api-key", raw)
		l.record("GET", "/symbol/folders", ``, "x-api-key", raw+"x")
		func() {
			defer func() { fmt.Fprintf(observed, "%v\n%s\n", recover(), debug.Stack()) }()
			_, err := clientKeys.Verify(t.Context(), raw)
			fmt.Fprintf(observed, "%v %+v %#v\n", err, err, err)
		}()
	}
	mode.Store(0)
	key := must(clientKeys.Verify(t.Context(), raw))(t)
	web.Close()
	stop() // formatting reads the values without locks
	dumps := new(strings.Builder)
	for _, value := range []any{
		options, &options, keyOptions, &keyOptions, clientKeys, options.Symbols, options.Exports, handler, key, issued, issued.Raw, clientKeys.Stats(), db,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(dumps, verb+"\n", value)
		}
	}
	l.keys.check(t, "dumps", dumps.String())
	l.keys.check(t, "observations", observed.String())
	l.urls.check(t, "observations", observed.String())
	l.keys.check(t, "database trace", trace.String())
	l.check(log.String()+observed.String(), databaseURL)
	for text, content := range map[string]string{
		"a bug: ": log.String(), "no connection: ": observed.String(),
		"INSERT INTO canvasback_keys": trace.String(), "AdminKeys": dumps.String(),
	} {
		t.Log(text)
		is.True(strings.Contains(content, text)) // the test has covered it
	}
}
