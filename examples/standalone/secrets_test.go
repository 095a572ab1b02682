package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/tracelog"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

const (
	firstAdminKey  = "first-admin-key-of-the-test"
	secondAdminKey = "second-admin-key-of-the-test"
	userSecret     = "password-in-an-address"
	querySecret    = "signature-in-a-query"
)

// scene is a server that is used and misused, with all that may not be seen.
type scene struct {
	*server
	keys      *scanner // may be seen nowhere but in the answers that show them
	addresses *scanner // may be seen by who knows them, and in no log
	origin    string   // of exported files
	answers   strings.Builder
}

// newScene makes a scene of a server. Files of its origin cannot be had.
func newScene(t *testing.T, s *server, origin string) *scene {
	c := &scene{server: s, keys: new(scanner), addresses: new(scanner), origin: origin}
	c.keys.add("an admin key", firstAdminKey)
	c.keys.add("another admin key", secondAdminKey)
	c.addresses.add("a password of an address", userSecret)
	c.addresses.add("a signature of an address", querySecret)
	return c
}

// brokenOrigin starts an origin that answers as badly as origins do.
func brokenOrigin(t *testing.T) (address, host string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://10.0.0.1/?s="+querySecret, http.StatusFound)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/torn":
			w.Header().Set("Content-Length", "1000000")
			w.Write(make([]byte, 500_000))
		default:
			http.Error(w, r.URL.String(), http.StatusForbidden)
		}
	}))
	t.Cleanup(origin.Close)
	return origin.URL, strings.TrimPrefix(origin.URL, "http://")
}

// issue makes a request whose answer shows a raw key, the only kind to do so.
func (c *scene) issue(status int, path string) string {
	c.t.Helper()
	raw := c.object(status, "POST", path, "", "x-admin-key", secondAdminKey)["apiKey"].(string)
	c.keys.addRaw("the raw key of "+path, raw)
	return raw
}

// ask makes a request whose answer may show nothing.
func (c *scene) ask(method, path, body string, headers ...string) {
	c.t.Helper()
	status, content := c.send(method, path, body, headers...)
	fmt.Fprintf(&c.answers, "%d %s\n", status, content)
}

// play uses a server in every way, right and wrong.
func (c *scene) play() {
	c.t.Helper()
	raws := []string{c.issue(201, "/admin/api-keys"), c.issue(201, "/admin/api-keys"), c.issue(201, "/admin/api-keys")}
	rotated := c.issue(200, "/admin/api-keys/1/rotate")
	c.ask("PATCH", "/admin/api-keys/2", `{"isActive":false}`, "x-admin-key", firstAdminKey)
	c.ask("DELETE", "/admin/api-keys/3", "", "x-admin-key", firstAdminKey)
	c.ask("GET", "/admin/api-keys", "", "x-admin-key", firstAdminKey)
	c.ask("GET", "/admin/api-keys/1", "", "x-admin-key", firstAdminKey)
	for _, raw := range append(raws, rotated, firstAdminKey, secondAdminKey) {
		for _, header := range []string{"x-api-key", "x-admin-key", "Authorization", "X-Access-Token", "Cookie", "Origin", "Referer", "If-None-Match", "Content-Type"} {
			for _, value := range []string{raw, "Bearer " + raw, raw + "x", `"` + raw + `"`} {
				c.ask("GET", "/symbol/folders", "", header, value)
				c.ask("GET", "/admin/api-keys/x", "", header, value)
			}
		}
		for _, path := range []string{"/symbol/folders?x-api-key=" + raw, "/symbol/folders/" + raw, "/" + raw, "/viewer/exports/download?responseType=" + raw} {
			c.ask("GET", strings.ReplaceAll(path, " ", "%20"), "", "x-api-key", rotated)
			c.ask("POST", strings.ReplaceAll(path, " ", "%20"), "{}", "x-api-key", rotated)
		}
		c.ask(strings.ReplaceAll(raw, " ", "")[:10], "/symbol/folders", "")
		for _, body := range []string{`{"apiKey":"` + raw + `"}`, `{"apiKey":"` + raw + `"`, `"` + raw + `"`, `{"name":5,"x":"` + raw + `"}`, `{"expiresAt":"` + raw + `"}`} {
			c.ask("POST", "/symbol/folders", body, "x-api-key", rotated)
			c.ask("PATCH", "/admin/api-keys/1", body, "x-admin-key", firstAdminKey)
		}
	}
	c.object(201, "POST", "/symbol/folders", `{"name":"A"}`, "x-api-key", rotated)
	c.exports(rotated)
}

// exports registers addresses with secrets in them, and fails to fetch them.
func (c *scene) exports(raw string) {
	c.t.Helper()
	register := func(source, exported string) (int, []byte) {
		return c.send("POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, source, exported), "x-api-key", raw)
	}
	refused := []string{
		"https://user:" + userSecret + "@viewer.example/", "http://10.0.0.1/?s=" + querySecret, "ftp://viewer.example/?s=" + querySecret, "https://viewer.example:99999/?s=" + querySecret,
		"https://" + userSecret + ":x:y@[/", "https://viewer.example/%zz?s=" + querySecret,
	}
	for _, address := range refused {
		status, body := register("s", address)
		if status != 400 {
			c.t.Errorf("registering %s: %d %s", address, status, body)
		}
		c.addresses.check(c.t, "the refusal of an address", string(body))
	}
	for _, kind := range []string{"status", "redirect", "reset", "torn"} {
		source := "https://user:" + userSecret + "@viewer.example/" + kind + "?s=" + querySecret
		if status, body := register(source, c.origin+"/"+kind+"?s="+querySecret); status != 201 {
			c.t.Errorf("registering %s: %d %s", kind, status, body)
		}
		for _, path := range []string{"/viewer/exports/download", "/viewer/exports/download-batch"} {
			item := fmt.Sprintf(`{"sourceFileUrl":%q}`, source)
			if strings.HasSuffix(path, "batch") {
				item = `{"items":[` + item + `]}`
			}
			request, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url+path, strings.NewReader(item))
			if err != nil {
				c.t.Fatal(err)
			}
			request.Header.Set("x-api-key", raw)
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil { // it may be torn
				response.Body.Close()
			}
		}
	}
}

// judge looks everywhere when the scene is over.
func (c *scene) judge(log, databaseURL string) {
	c.t.Helper()
	c.keys.check(c.t, "answers", c.answers.String())
	c.keys.check(c.t, "log", log)
	c.addresses.check(c.t, "log", log)
	c.keys.check(c.t, "database", contents(c.t, databaseURL))
	for _, want := range []string{"request failed", "file skipped", "asking for an export once more"} {
		if !strings.Contains(log, want) {
			c.t.Errorf("the log does not have %q: nothing has been tested", want)
		}
	}
}

// TestSecrets_ofTheServer plays with the server as it is run.
func TestSecrets_ofTheServer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		if databaseURL == "memory:" {
			return // there is nothing to look into
		}
		origin, host := brokenOrigin(t)
		s := launch(t, map[string]string{
			"DATABASE_URL": databaseURL, "ADMIN_API_KEY": firstAdminKey + "," + secondAdminKey, "EXPORT_ALLOWED_HOSTS": host, "DEMO": "false",
		})
		c := newScene(t, s, origin)
		c.play()
		c.judge(s.log.String(), databaseURL) // while it runs, with the write-ahead log
		c.keys.check(t, "banner", s.banner)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		c.judge(s.log.String(), databaseURL)
	})
}

// TestSecrets_ofTheServerThatMakesItsOwn has the keys that it generates, which
// its banner shows once.
func TestSecrets_ofTheServerThatMakesItsOwn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "canvasback.db")
	s := launch(t, map[string]string{"DATABASE_URL": "sqlite:" + path})
	var secrets scanner
	admin := regexp.MustCompile(`ADMIN_KEY=(\S+)`).FindStringSubmatch(s.banner)[1]
	client := regexp.MustCompile(`CLIENT_KEY=(cbk_\S+)`).FindStringSubmatch(s.banner)[1]
	secrets.add("the admin key", admin)
	secrets.addRaw("the client key", client)
	if found := secrets.find(s.banner); len(found) != 2 {
		t.Fatalf("the banner shows %v", found)
	}
	s.object(200, "GET", "/admin/api-keys/1", "", "x-admin-key", admin)
	s.send("GET", "/symbol/folders", "", "x-api-key", client)
	s.send("GET", "/symbol/folders", "", "x-api-key", client+"x")
	s.send("GET", "/nope", "", "x-admin-key", client)
	secrets.check(t, "log", s.log.String())
	secrets.check(t, "database", contents(t, "sqlite:"+path))
}

// faultyKeys is a store that panics or fails when it is told to, with
// everything in the text that it has been given.
type faultyKeys struct {
	keys.Store
	mood *atomic.Int32
}

func (s faultyKeys) trouble(given ...any) error {
	switch text := fmt.Sprintf("%v %+v %#v %s", given, given, given, given); s.mood.Load() {
	case 1:
		return errors.New("no connection: " + text)
	case 2:
		panic("a bug: " + text)
	}
	return nil
}

func (s faultyKeys) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if err := s.trouble(digest); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Find(ctx, digest)
}

func (s faultyKeys) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	if err := s.trouble(key); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Insert(ctx, key)
}

func (s faultyKeys) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	return s.Store.Update(ctx, id, func(key *keys.Key) error {
		if err := change(key); err != nil {
			return err
		}
		return s.trouble(*key)
	})
}

// TestSecrets_ofAHost plays with a host that traces its database, prints all
// that it has, and has bugs.
func TestSecrets_ofAHost(t *testing.T) {
	t.Parallel()
	const pepper = "pepper-that-is-kept-outside"
	databaseURL := pgtest.Database(t)
	trace, log, seen := new(buffer), new(buffer), new(buffer)
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = &tracelog.TraceLog{LogLevel: tracelog.LogLevelTrace, Logger: tracelog.LoggerFunc(
		func(_ context.Context, level tracelog.LogLevel, message string, data map[string]any) {
			fmt.Fprintf(trace, "%s %s %v %#v\n", level, message, data, data)
		})}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := postgres.New(pool, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	origin, host := brokenOrigin(t)
	mood := new(atomic.Int32)
	keyOptions := keys.Options{Pepper: []byte(pepper), PreviousPeppers: [][]byte{[]byte("former " + pepper)}, Logger: logger}
	clientKeys, err := keys.NewService(faultyKeys{db.Keys(), mood}, &keyOptions)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { clientKeys.Run(ctx) })
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	fetcher, err := fetch.New(&fetch.Options{AllowedHosts: []string{host}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	options := httpapi.Options{
		Keys:      clientKeys,
		Symbols:   symbols.NewService(db.Symbols(), nil),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetcher}}),
		AdminKeys: []string{firstAdminKey, secondAdminKey},
		Observe:   func(_ context.Context, o httpapi.Observation) { fmt.Fprintf(seen, "%+v %#v\n", o, o) },
		Logger:    logger,
	}
	handler := httpapi.Handler(options)
	web := httptest.NewUnstartedServer(handler)
	web.Config.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	web.Start()
	t.Cleanup(web.Close)

	c := newScene(t, &server{t: t, url: web.URL}, origin)
	c.keys.add("the pepper", pepper)
	c.play()
	issued, err := clientKeys.Create(t.Context(), keys.Fields{})
	if err != nil {
		t.Fatal(err)
	}
	raw := string(issued.Raw)
	c.keys.addRaw("a raw key that Go was given", raw)
	for _, trouble := range []int32{1, 2} {
		mood.Store(trouble)
		c.ask("POST", "/admin/api-keys", `{}`, "x-admin-key", firstAdminKey)
		c.ask("POST", "/admin/api-keys/1/rotate", ``, "x-admin-key", firstAdminKey)
		c.ask("GET", "/symbol/folders", ``, "x-api-key", raw)
		c.ask("GET", "/symbol/folders", ``, "x-api-key", raw+"x")
		func() {
			defer func() { fmt.Fprintf(seen, "%v\n%s\n", recover(), debug.Stack()) }()
			_, err := clientKeys.Verify(t.Context(), raw)
			fmt.Fprintf(seen, "%v %+v %#v\n", err, err, err)
		}()
	}
	mood.Store(0)
	key, err := clientKeys.Verify(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	web.Close()
	stop() // what is printed must not move
	dumps := new(strings.Builder)
	for _, value := range []any{options, &options, keyOptions, &keyOptions, clientKeys, *options.Symbols, *options.Exports, handler, key, issued, issued.Raw, clientKeys.Stats(), db} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(dumps, verb+"\n", value)
		}
	}
	c.keys.check(t, "dumps", dumps.String())
	c.keys.check(t, "observations", seen.String())
	c.addresses.check(t, "observations", seen.String())
	c.keys.check(t, "trace of the database", trace.String())
	c.judge(log.String(), databaseURL)
	for text, where := range map[string]string{"a bug: ": log.String(), "no connection: ": log.String(), "INSERT INTO canvasback_keys": trace.String(), "AdminKeys": dumps.String()} {
		if !strings.Contains(where, text) {
			t.Errorf("%q is nowhere: nothing has been tested", text)
		}
	}
}
