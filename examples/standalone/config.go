package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"example.com/canvasback/httpapi"
)

// config is the parsed environment.
type config struct {
	addr          string
	basePath      string // "" or "/...", without a trailing slash
	adminKeys     []string
	databaseURL   string
	protect       bool
	allowedHosts  []string
	exportDir     string
	exportDirURL  string
	objectStore   objectStore
	registerWith  httpapi.RegisterWith
	corsOrigins   []string
	metricsAddr   string // empty: no metrics
	clientIP      string // header of a proxy; empty: the remote address
	linkLifetime  time.Duration
	demo          demoMode
	logLevel      slog.Level
	adminKeyGiven bool
}

// demoMode selects when sample data is created.
type demoMode int

const (
	demoIfNew demoMode = iota // the database has no keys and no folders
	demoAlways
	demoNever
)

// variable describes an environment variable for -h.
type variable struct{ name, fallback, description string }

var variables = []variable{
	{"ADDR", "127.0.0.1:8080", "listen address"},
	{"BASE_PATH", "/api", "path prefix of the API; may be empty"},
	{"ADMIN_API_KEY", "generated, printed", "admin keys of at least 16 characters, or hashes of -hash-admin-key, comma-separated"},
	{"ALLOW_SHORT_ADMIN_KEYS", "false", "true accepts shorter admin keys, which can be guessed"},
	{"DATABASE_URL", "sqlite:canvasback.db", "sqlite:PATH, memory:, or postgres://..."},
	{"PROTECT_ROUTES", "true", "false opens the client routes to everyone"},
	{"EXPORT_ALLOWED_HOSTS", "", "host or host:port, comma-separated, that may resolve to private addresses"},
	{"EXPORT_DIR", "", "directory of exported files; served publicly at /files/ unless EXPORT_DIR_URL is set"},
	{"EXPORT_DIR_URL", "URL of this server + /files/", "http(s) base URL of the files in EXPORT_DIR"},
	{"EXPORT_S3_BUCKETS", "", "bucket or bucket/prefix, comma-separated; credentials as for AWS tools: AWS_ACCESS_KEY_ID, ..., files, roles"},
	{"EXPORT_S3_ENDPOINT", "AWS", "http(s) base URL of the object store"},
	{"EXPORT_S3_REGION", "AWS_REGION or us-east-1", "region of the object store"},
	{"EXPORT_S3_URL_LIFETIME", "15m", "how long a presigned URL is valid, at most 168h"},
	{"REGISTER_WITH", "client", "which key may register exports: client, admin or off"},
	{"LINK_LIFETIME", "24h", "how long a download link is valid, such as 90m"},
	{"CORS_ORIGINS", "", "allowed CORS origins, comma-separated, or *"},
	{"DEMO", "true on a new database", "create sample data and a client key"},
	{"CLIENT_IP_HEADER", "", "header with the IP address of the client, such as X-Real-IP; a proxy must overwrite it in every request"},
	{"METRICS_ADDR", "", "listen address of Prometheus metrics, such as 127.0.0.1:9090"},
	{"LOG_LEVEL", "info", "debug, info, warn or error"},
}

// usage returns the list of variables for -h.
func usage() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, v := range variables {
		fallback := v.fallback
		if fallback == "" {
			fallback = "none"
		}
		fmt.Fprintf(table, "  %s\t%s\t(default: %s)\n", v.name, v.description, fallback)
	}
	table.Flush()
	return text.String()
}

// minAdminKey is the length of the shortest admin key in characters. The rate limit
// of httpapi permits 860,000 guesses a day for each client IP.
const minAdminKey = 16

func allowShortAdminKeys(lookup func(string) (string, bool)) (bool, error) {
	value, _ := lookup("ALLOW_SHORT_ADMIN_KEYS")
	if value = strings.TrimSpace(value); value == "" {
		return false, nil
	}
	allow, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("ALLOW_SHORT_ADMIN_KEYS must be true or false")
	}
	return allow, nil
}

func checkAdminKey(key string, allowShort bool) error {
	if utf8.RuneCountInString(key) < minAdminKey && !allowShort {
		return fmt.Errorf("an admin key of less than %d characters can be guessed; choose a longer one or set ALLOW_SHORT_ADMIN_KEYS=true", minAdminKey)
	}
	return nil
}

// readConfig reads the environment through lookup. Empty variables count as
// unset, except BASE_PATH.
func readConfig(lookup func(string) (string, bool)) (config, error) {
	get := func(name, fallback string) string {
		value, _ := lookup(name)
		if value = strings.TrimSpace(value); value != "" {
			return value
		}
		return fallback
	}
	c := config{
		addr:         get("ADDR", "127.0.0.1:8080"),
		adminKeys:    splitList(get("ADMIN_API_KEY", "")),
		databaseURL:  get("DATABASE_URL", "sqlite:canvasback.db"),
		allowedHosts: splitList(get("EXPORT_ALLOWED_HOSTS", "")),
		exportDir:    get("EXPORT_DIR", ""),
		exportDirURL: get("EXPORT_DIR_URL", ""),
		corsOrigins:  splitList(get("CORS_ORIGINS", "")),
		metricsAddr:  get("METRICS_ADDR", ""),
		clientIP:     get("CLIENT_IP_HEADER", ""),
	}
	c.objectStore = objectStore{
		buckets:  splitList(get("EXPORT_S3_BUCKETS", "")),
		endpoint: get("EXPORT_S3_ENDPOINT", ""),
		region:   get("EXPORT_S3_REGION", ""),
	}
	c.adminKeyGiven = len(c.adminKeys) > 0
	allowShort, err := allowShortAdminKeys(lookup)
	if err != nil {
		return c, err
	}
	for i, key := range c.adminKeys {
		if err := checkAdminKey(key, allowShort); err != nil {
			return c, fmt.Errorf("ADMIN_API_KEY: key %d: %w", i+1, err)
		}
	}
	base, set := lookup("BASE_PATH")
	if !set {
		base = "/api"
	}
	if base = strings.Trim(base, "/ "); base != "" {
		c.basePath = "/" + base
	}
	if c.basePath != path.Clean(c.basePath) && base != "" || (&url.URL{Path: c.basePath}).EscapedPath() != c.basePath {
		return c, fmt.Errorf("BASE_PATH must be a plain path such as /api, not %q", c.basePath)
	}
	if _, _, err := net.SplitHostPort(c.addr); err != nil {
		return c, fmt.Errorf("ADDR must be host:port: %w", err)
	}
	if _, _, err := net.SplitHostPort(c.metricsAddr); c.metricsAddr != "" && err != nil {
		return c, fmt.Errorf("METRICS_ADDR must be host:port: %w", err)
	}
	if strings.ContainsFunc(c.clientIP, func(c rune) bool { return !strings.ContainsRune(headerCharacters, c) }) {
		return c, fmt.Errorf("CLIENT_IP_HEADER must be the name of one header, such as X-Real-IP")
	}

	if c.protect, err = strconv.ParseBool(get("PROTECT_ROUTES", "true")); err != nil {
		return c, fmt.Errorf("PROTECT_ROUTES must be true or false")
	}
	switch with := get("REGISTER_WITH", "client"); with {
	case "client":
		c.registerWith = httpapi.RegisterWithClientKey
	case "admin":
		c.registerWith = httpapi.RegisterWithAdminKey
	case "off":
		c.registerWith = httpapi.RegisterOff
	default:
		return c, fmt.Errorf("REGISTER_WITH must be client, admin or off, not %q", with)
	}
	if c.linkLifetime, err = time.ParseDuration(get("LINK_LIFETIME", "24h")); err != nil || c.linkLifetime <= 0 {
		return c, fmt.Errorf("LINK_LIFETIME must be a positive duration such as 24h or 90m")
	}
	lifetime := &c.objectStore.urlLifetime
	if *lifetime, err = time.ParseDuration(get("EXPORT_S3_URL_LIFETIME", "15m")); err != nil || *lifetime < time.Second || *lifetime > 7*24*time.Hour {
		return c, fmt.Errorf("EXPORT_S3_URL_LIFETIME must be a duration from 1s to 168h")
	}
	if demo := get("DEMO", ""); demo != "" {
		on, err := strconv.ParseBool(demo)
		if err != nil {
			return c, fmt.Errorf("DEMO must be true or false")
		}
		c.demo = demoNever
		if on {
			c.demo = demoAlways
		}
	}
	if err := c.logLevel.UnmarshalText([]byte(get("LOG_LEVEL", "info"))); err != nil {
		return c, fmt.Errorf("LOG_LEVEL must be debug, info, warn or error")
	}
	return c, nil
}

// headerCharacters are those of common header names.
const headerCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// clientIPFrom returns a function that returns the IP address in a header. It returns
// the remote address if the request has not exactly one such header with an address.
func clientIPFrom(header string) func(*http.Request) string {
	return func(r *http.Request) string {
		if values := r.Header.Values(header); len(values) == 1 {
			if ip, err := netip.ParseAddr(strings.TrimSpace(values[0])); err == nil {
				return ip.Unmap().WithZone("").String()
			}
		}
		remote, _, _ := net.SplitHostPort(r.RemoteAddr)
		return remote
	}
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
