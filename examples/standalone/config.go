package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/httpapi"
)

// config is the parsed environment.
type config struct {
	addr            string
	publicURL       string // without a trailing slash; empty: that of the listener
	basePath        string // "" or "/...", without a trailing slash
	tls             tlsConfig
	adminKeys       []string
	adminKeyGiven   bool
	databaseURL     string
	protect         bool
	allowedHosts    []string
	exportDir       string
	exportDirURL    string
	objectStore     objectStore
	registerWith    httpapi.RegisterWith
	corsOrigins     []string
	clientIPs       clientIPs
	metricsAddr     string // empty: no metrics
	linkLifetime    time.Duration
	demo            demoMode
	logLevel        slog.Level
	logJSON         bool
	shutdownTimeout time.Duration
}

// demoMode selects when sample data is created.
type demoMode int

const (
	demoIfNew demoMode = iota // the database has no keys and no folders
	demoAlways
	demoNever
)

// readConfig reads the environment through lookup. Empty variables count as
// unset, except BASE_PATH.
func readConfig(lookup func(string) (string, bool)) (config, error) {
	env := &environment{lookup: lookup}
	c := config{
		publicURL:       strings.TrimRight(env.url("PUBLIC_URL"), "/"),
		basePath:        env.basePath(),
		tls:             env.tls(),
		adminKeys:       env.adminKeys(),
		databaseURL:     env.text("DATABASE_URL", defaultDatabase),
		protect:         env.flag("PROTECT_ROUTES", true),
		allowedHosts:    env.list("EXPORT_ALLOWED_HOSTS"),
		exportDir:       env.text("EXPORT_DIR", ""),
		exportDirURL:    env.text("EXPORT_DIR_URL", ""),
		corsOrigins:     env.list("CORS_ORIGINS"),
		metricsAddr:     env.address("METRICS_ADDR", ""),
		linkLifetime:    env.duration("LINK_LIFETIME", 24*time.Hour, 1, 0),
		logJSON:         env.choice("LOG_FORMAT", "text", "json") == "json",
		shutdownTimeout: env.duration("SHUTDOWN_TIMEOUT", 30*time.Second, 0, 0),
		objectStore: objectStore{
			buckets:     env.list("EXPORT_S3_BUCKETS"),
			endpoint:    env.text("EXPORT_S3_ENDPOINT", ""),
			region:      env.text("EXPORT_S3_REGION", ""),
			urlLifetime: env.duration("EXPORT_S3_URL_LIFETIME", 15*time.Minute, time.Second, 7*24*time.Hour),
		},
	}
	if c.adminKeyGiven = len(c.adminKeys) > 0; !c.adminKeyGiven {
		c.adminKeys = []string{"admin_" + rand.Text()}
	}
	addr := "127.0.0.1:8080"
	if c.tls.enabled() {
		addr = ":443"
		if strings.HasPrefix(c.publicURL, "http:") {
			env.fail("PUBLIC_URL must begin with https: because TLS_HOSTS is set")
		}
	}
	c.addr = env.address("ADDR", addr)
	switch env.choice("REGISTER_WITH", "client", "admin", "off") {
	case "admin":
		c.registerWith = httpapi.RegisterWithAdminKey
	case "off":
		c.registerWith = httpapi.RegisterOff
	}
	if env.text("DEMO", "") != "" {
		c.demo = demoNever
		if env.flag("DEMO", false) {
			c.demo = demoAlways
		}
	}
	if err := c.logLevel.UnmarshalText([]byte(env.text("LOG_LEVEL", "info"))); err != nil {
		env.fail("LOG_LEVEL must be debug, info, warn or error")
	}
	var err error
	if c.clientIPs, err = parseClientIPs(env.text("CLIENT_IP_HEADER", ""), env.list("TRUSTED_PROXIES")); err != nil {
		env.fail("%w", err)
	}
	if err := checkDatabaseURL(c.databaseURL); err != nil {
		env.fail("%w", err)
	}
	return c, env.err
}

// environment reads variables and keeps the first error.
type environment struct {
	lookup func(string) (string, bool)
	err    error
}

func (e *environment) fail(format string, args ...any) {
	e.err = cmp.Or(e.err, fmt.Errorf(format, args...))
}

func (e *environment) text(name, fallback string) string {
	value, _ := e.lookup(name)
	return cmp.Or(strings.TrimSpace(value), fallback)
}

func (e *environment) list(name string) []string { return splitList(e.text(name, "")) }

func (e *environment) flag(name string, fallback bool) bool {
	value, err := strconv.ParseBool(e.text(name, strconv.FormatBool(fallback)))
	if err != nil {
		e.fail("%s must be true or false", name)
	}
	return value
}

// choice returns one of values; the first is the default.
func (e *environment) choice(name string, values ...string) string {
	value := e.text(name, values[0])
	if !slices.Contains(values, value) {
		last := len(values) - 1
		e.fail("%s must be %s or %s, not %q", name, strings.Join(values[:last], ", "), values[last], value)
	}
	return value
}

// duration returns a duration from least to most; a most of 0 is no limit.
func (e *environment) duration(name string, fallback, least, most time.Duration) time.Duration {
	value, err := time.ParseDuration(e.text(name, fallback.String()))
	switch {
	case err == nil && value >= least && (most == 0 || value <= most):
	case most > 0:
		e.fail("%s must be a duration from %v to %v", name, least, most)
	case least > 0:
		e.fail("%s must be a positive duration such as 24h or 90m", name)
	default:
		e.fail("%s must be a duration such as 25s", name)
	}
	return value
}

func (e *environment) address(name, fallback string) string {
	value := e.text(name, fallback)
	if _, _, err := net.SplitHostPort(value); value != "" && err != nil {
		e.fail("%s must be host:port: %w", name, err)
	}
	return value
}

// url returns an http or https URL of a server and a path.
func (e *environment) url(name string) string {
	value := e.text(name, "")
	u, err := url.Parse(value)
	if value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(value, "?#")) {
		e.fail("%s must be a URL such as https://canvas.example, without query or credentials", name)
	}
	return value
}

func (e *environment) basePath() (base string) {
	text, set := e.lookup("BASE_PATH")
	if !set {
		text = "/api"
	}
	if text = strings.Trim(text, "/ "); text != "" {
		base = "/" + text
	}
	if base != path.Clean(base) && base != "" || (&url.URL{Path: base}).EscapedPath() != base {
		e.fail("BASE_PATH must be a plain path such as /api, not %q", base)
	}
	return base
}

// minAdminKey is the length of the shortest admin key in characters. The rate limit
// of httpapi permits 860,000 guesses a day for each client IP.
const minAdminKey = 16

func (e *environment) adminKeys() []string {
	list := e.list("ADMIN_API_KEY")
	if len(list) == 0 && e.text("ADMIN_API_KEY", "") != "" {
		e.fail("ADMIN_API_KEY is a list without a key")
	}
	allowShort := e.flag("ALLOW_SHORT_ADMIN_KEYS", false)
	for i, key := range list {
		if err := checkAdminKey(key, allowShort); err != nil {
			e.fail("ADMIN_API_KEY: key %d: %w", i+1, err)
		}
	}
	return list
}

func checkAdminKey(key string, allowShort bool) error {
	if utf8.RuneCountInString(key) < minAdminKey && !allowShort {
		return fmt.Errorf("an admin key of less than %d characters can be guessed; choose a longer one or set ALLOW_SHORT_ADMIN_KEYS=true", minAdminKey)
	}
	return nil
}

// baseURL returns the URL of this server for clients.
func (c config) baseURL(listener net.Addr) string {
	if c.publicURL != "" {
		return c.publicURL
	}
	if !c.tls.enabled() {
		return localURL(listener)
	}
	host := c.tls.hosts[0]
	if _, port, err := net.SplitHostPort(listener.String()); err == nil && port != "443" {
		host = net.JoinHostPort(host, port)
	}
	return "https://" + host
}

// splitList splits text at commas and drops white space and empty elements.
func splitList(text string) []string {
	var elements []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			elements = append(elements, element)
		}
	}
	return elements
}

// localURL returns the URL of a listener as seen from this machine. It replaces
// an unspecified IP address by the loopback address.
func localURL(listener net.Addr) string {
	host, port, err := net.SplitHostPort(listener.String())
	if err != nil {
		return "http://" + listener.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}
