package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"example.com/canvasback/examples/internal/acme"
	"example.com/canvasback/examples/internal/clientip"
	"example.com/canvasback/examples/internal/database"
	"example.com/canvasback/examples/internal/env"
	"example.com/canvasback/examples/internal/resolver"
	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/s3"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

// config is the parsed environment. What run adds to the options is not in it.
type config struct {
	api      httpapi.Options
	keys     keys.Options
	exports  exports.Options
	symbols  symbols.Options
	fetch    fetch.Options
	s3       s3.Options
	postgres postgres.Options

	addr            string
	addrVariable    string // from which addr is: ADDR or PORT
	adminKeyGiven   bool
	databaseURL     string
	demo            *bool // nil: on a new database
	exportDir       string
	resolver        resolver.Resolver
	ignoreQuery     bool
	exportDirURLs   []string
	protect         bool
	tls             acme.Config
	httpAddr        string // empty: no HTTP beside HTTPS
	clientIP        clientip.Finder
	metricsAddr     string // empty: no metrics
	logLevel        slog.Level
	logJSON         bool
	shutdownTimeout time.Duration
}

func (c *config) variables() env.Table {
	return env.Table{
		env.Title("Usual"),
		env.Var(&c.addr, env.Text, "ADDR", "", "listen address (default 127.0.0.1:8080, or :443 with TLS_HOSTS)"),
		env.Func(c.setPort, "PORT", "", "port to listen on at all interfaces, unless ADDR is set"),
		env.Func(c.setAdminKeys, "ADMIN_API_KEY", "", "admin keys or hashes, comma-separated; generated if empty"),
		env.Func(c.setDatabaseURL, "DATABASE_URL", "sqlite:canvasback.db", "sqlite:PATH, memory: or postgres://..."),
		env.Var(&c.api.PublicURL, env.Text, "PUBLIC_URL", "", "http(s) base URL of this server for clients"),
		env.Var(&c.api.AllowedOrigins, env.List, "CORS_ORIGINS", "", "origins of pages, comma-separated, or *"),
		env.Var(&c.demo, env.OptionalBool, "DEMO", "", "create sample data and a client key (default true on a new database)"),
		env.Title("Exported files"),
		env.Var(&c.exportDir, env.Text, "EXPORT_DIR", "", "directory of exported files; only downloads serve them"),
		env.Var(&c.exportDirURLs, env.List, "EXPORT_DIR_URL", "http://files.internal/", "URLs of this directory, comma-separated"),
		env.Var(&c.fetch.AllowedHosts, env.List, "EXPORT_ALLOWED_HOSTS", "", "host[:port] that may be private and use that port, comma-separated"),
		env.Var(&c.s3.Buckets, env.List, "EXPORT_S3_BUCKETS", "", "bucket[/prefix], comma-separated; credentials of AWS tools"),
		env.Var(&c.s3.Endpoint, env.Text, "EXPORT_S3_ENDPOINT", "", "URL of the object store, if it is not AWS"),
		env.Var(&c.s3.Region, env.Text, "EXPORT_S3_REGION", "", "its region (default AWS_REGION or us-east-1)"),
		env.Var(&c.s3.PresignLifetime, env.Duration(time.Second, 7*24*time.Hour), "EXPORT_S3_URL_LIFETIME", "15m", "lifetime of a presigned URL"),
		env.Var(&c.exports.LinkLifetime, env.Duration(1, 0), "LINK_LIFETIME", "24h", "lifetime of a download link"),
		env.Var(&c.api.RegisterWith, env.Choice(registerWith), "REGISTER_WITH", "scope", "who registers: scope (and admin), client, admin, off"),
		env.Var(&c.resolver.URL, env.Text, "EXPORT_RESOLVE_URL", "", "URL that is asked for exports that are not registered"),
		env.Var(&c.resolver.Token, env.Text, "EXPORT_RESOLVE_TOKEN", "", "bearer token for it"),
		env.Var(&c.ignoreQuery, env.Bool, "SOURCE_IGNORE_QUERY", "false", "true cuts source URLs at their first question mark"),
		env.Title("Routes"),
		env.Var(&c.api.Prefix, env.Path, "BASE_PATH", "/api", "path prefix of the API; may be empty").OrEmpty(),
		env.Var(&c.symbols.TrashLifetime, env.Duration(0, 0), "TRASH_LIFETIME", "720h", "how long deleted symbols can be restored; 0: not at all"),
		env.Var(&c.keys.ForeignKeys, env.Bool, "FOREIGN_KEYS", "false", "true imports client keys of other systems, in any form"),
		env.Var(&c.api.RevokeRoute, env.Bool, "REVOKE_ROUTE", "false", "true lets whoever has found a client key revoke it"),
		env.Var(&c.protect, env.Bool, "PROTECT_ROUTES", "true", "false opens the client routes to everyone"),
		env.Var(&c.api.Tenant, env.Choice(tenants), "TENANTS", "off", "owner: keys of an owner see only its records; off"),
		env.Title("Proxies and TLS"),
		env.Func(c.clientIP.SetProxies, "TRUSTED_PROXIES", "", "IP addresses or prefixes whose X-Forwarded-For counts"),
		env.Func(c.clientIP.SetHeader, "CLIENT_IP_HEADER", "", "other header, which the proxy must overwrite"),
		env.Var(&c.tls.Hosts, env.List, "TLS_HOSTS", "", "host names, comma-separated: HTTPS with ACME certificates"),
		env.Var(&c.tls.CacheDir, env.Text, "TLS_CACHE_DIR", "", "directory of certificates and keys (default certificates)"),
		env.Var(&c.tls.DirectoryURL, env.Text, "TLS_DIRECTORY_URL", "", "URL of the ACME server, if it is not Let's Encrypt"),
		env.Var(&c.httpAddr, env.Text, "TLS_HTTP_ADDR", "", "listen address, such as :80, that redirects to HTTPS"),
		env.Title("Operation"),
		env.Var(&c.metricsAddr, env.Text, "METRICS_ADDR", "", "listen address of Prometheus metrics"),
		env.Var(&c.logLevel, env.Choice(logLevels), "LOG_LEVEL", "info", "debug, info, warn or error"),
		env.Var(&c.logJSON, env.Choice(logFormats), "LOG_FORMAT", "text", "text or json"),
		env.Var(&c.shutdownTimeout, env.Duration(0, 0), "SHUTDOWN_TIMEOUT", "30s", "how long downloads continue after a signal"),
		env.Var(&c.postgres.Fence, env.Choice(fenceModes), "POSTGRES_FENCE", "auto", "when calls wait for a standby: auto, always, never, strict"),
	}
}

// Values of variables.
var (
	logLevels = map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	logFormats   = map[string]bool{"text": false, "json": true}
	registerWith = map[string]httpapi.RegisterWith{
		"scope": httpapi.RegisterWithScope, "client": httpapi.RegisterWithClientKey,
		"admin": httpapi.RegisterWithAdminKey, "off": httpapi.RegisterOff,
	}
	tenants = map[string]func(keys.Key) (string, error){"off": nil, "owner": httpapi.TenantOfOwner}

	fenceModes = map[string]postgres.Fence{
		"auto": postgres.FenceAuto, "always": postgres.FenceAlways,
		"never": postgres.FenceNever, "strict": postgres.FenceStrict,
	}
)

func readConfig(lookup func(string) (string, bool)) (*config, error) {
	c := &config{addrVariable: "ADDR"}
	if err := c.variables().Read(lookup, c.check); err != nil {
		return nil, err
	}
	if c.tls.Enabled() {
		c.addr = cmp.Or(c.addr, ":443")
	}
	c.addr = cmp.Or(c.addr, "127.0.0.1:8080")
	if c.adminKeyGiven = len(c.api.AdminKeys) > 0; !c.adminKeyGiven {
		c.api.AdminKeys = []string{"admin_" + rand.Text()}
	}
	c.api.DangerouslySkipClientKeys = !c.protect
	if c.resolver.URL != "" {
		c.exports.Resolve = c.resolver.Resolve
	}
	if c.ignoreQuery {
		c.exports.SourceKey = resolver.CutQuery
	}
	c.api.ClientIP = c.clientIP.Find
	return c, nil
}

// check returns an error if the variables that were read so far do not fit together.
func (c *config) check() error {
	_, apiErr := httpapi.New(&c.api)
	_, fetchErr := fetch.New(&c.fetch)
	var s3Err error
	if options := c.s3; len(options.Buckets) > 0 {
		options.Credentials = aws.AnonymousCredentials{}
		_, s3Err = s3.New(&options)
	}
	if err := errors.Join(apiErr, fetchErr, s3Err, c.tls.Check(), c.resolver.Check()); err != nil {
		return err
	}
	switch {
	case c.api.Tenant != nil && !c.protect:
		return errors.New("requires PROTECT_ROUTES=true")
	case len(c.s3.Buckets) == 0 && c.s3.Endpoint+c.s3.Region != "":
		return errors.New("requires EXPORT_S3_BUCKETS")
	case c.resolver.URL == "" && c.resolver.Token != "":
		return errors.New("requires EXPORT_RESOLVE_URL")
	case !c.tls.Enabled() && c.tls.CacheDir+c.tls.DirectoryURL+c.httpAddr != "":
		return errors.New("requires TLS_HOSTS")
	case c.tls.Enabled() && strings.HasPrefix(c.api.PublicURL, "http:"):
		return errors.New("requires an https URL in PUBLIC_URL")
	}
	return nil
}

func (c *config) setPort(value string) error {
	if n, err := strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
		return errors.New("must be a number from 1 to 65535")
	}
	if c.addr == "" {
		c.addr, c.addrVariable = ":"+value, "PORT"
	}
	return nil
}

// minAdminKey is the length in characters of the shortest admin key that is hard to
// guess. The rate limit of httpapi permits 860,000 guesses a day for each client IP.
const minAdminKey = 16

func isShort(adminKey string) bool { return utf8.RuneCountInString(adminKey) < minAdminKey }

func (c *config) setDatabaseURL(value string) error {
	c.databaseURL = value
	return database.CheckURL(value)
}

// setAdminKeys takes the parts of a value between commas for keys if none is short.
// Otherwise the value is one key, which may contain commas.
func (c *config) setAdminKeys(value string) error {
	c.api.AdminKeys = strings.Split(value, ",")
	for i, key := range c.api.AdminKeys {
		c.api.AdminKeys[i] = strings.TrimSpace(key)
	}
	if slices.ContainsFunc(c.api.AdminKeys, isShort) {
		c.api.AdminKeys = []string{value}
	}
	return nil
}

// urlOf returns the URL of this server for clients, without a trailing slash.
func (c *config) urlOf(listener net.Addr) string {
	if c.api.PublicURL != "" {
		return strings.TrimRight(c.api.PublicURL, "/")
	}
	if !c.tls.Enabled() {
		return localURL(listener.String())
	}
	host := c.tls.Hosts[0]
	if _, port, err := net.SplitHostPort(listener.String()); err == nil && port != "443" {
		host = net.JoinHostPort(host, port)
	}
	return "https://" + host
}

// localURL returns the URL of a listen address as seen from this machine. It replaces
// an unspecified IP address by the loopback address.
func localURL(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(strings.ReplaceAll(host, "%", "%25"), port)
}
