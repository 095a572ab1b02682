package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// variable describes an environment variable for -h.
type variable struct{ name, fallback, description string }

var variables = []variable{
	{"ADDR", "127.0.0.1:8080, or :443 with TLS_HOSTS", "listen address"},
	{"BASE_PATH", "/api", "path prefix of the API; may be empty"},
	{"ADMIN_API_KEY", "generated, printed", "admin keys of at least 16 characters, or hashes of -hash-admin-key, comma-separated"},
	{"ALLOW_SHORT_ADMIN_KEYS", "false", "true accepts shorter admin keys, which can be guessed"},
	{"DATABASE_URL", defaultDatabase, "sqlite:PATH, memory:, or postgres://..."},
	{"PROTECT_ROUTES", "true", "false opens the client routes to everyone"},
	{"EXPORT_ALLOWED_HOSTS", "", "host or host:port, comma-separated, that may resolve to private addresses"},
	{"EXPORT_DIR", "", "directory of exported files; served publicly at /files/ unless EXPORT_DIR_URL is set"},
	{"EXPORT_DIR_URL", "PUBLIC_URL + /files/", "http(s) base URL of the files in EXPORT_DIR"},
	{"EXPORT_S3_BUCKETS", "", "bucket or bucket/prefix, comma-separated; credentials as for AWS tools: AWS_ACCESS_KEY_ID, ..., files, roles"},
	{"EXPORT_S3_ENDPOINT", "AWS", "http(s) base URL of the object store"},
	{"EXPORT_S3_REGION", "AWS_REGION or us-east-1", "region of the object store"},
	{"EXPORT_S3_URL_LIFETIME", "15m", "how long a presigned URL is valid, at most 168h"},
	{"REGISTER_WITH", "client", "which key may register exports: client, admin or off"},
	{"LINK_LIFETIME", "24h", "how long a download link is valid, such as 90m"},
	{"CORS_ORIGINS", "", "allowed CORS origins, comma-separated, or *"},
	{"DEMO", "true on a new database", "create sample data and a client key"},
	{"PUBLIC_URL", "http://ADDR, or https:// with TLS_HOSTS", "http(s) base URL of this server for clients; processes that share a database need the same"},
	{"TRUSTED_PROXIES", "", "IP addresses or prefixes such as 10.0.0.0/8, comma-separated, whose X-Forwarded-For header names the client"},
	{"CLIENT_IP_HEADER", "", "another header with the IP address of the client, such as X-Real-IP; without TRUSTED_PROXIES a proxy must overwrite it in every request"},
	{"TLS_HOSTS", "", "host names, comma-separated: serve HTTPS with certificates of an ACME server, by default Let's Encrypt"},
	{"TLS_CACHE_DIR", "certificates", "directory of certificates and their keys"},
	{"TLS_DIRECTORY_URL", "Let's Encrypt", "https URL of another ACME server"},
	{"TLS_HTTP_ADDR", "", "listen address, such as :80, that redirects to HTTPS and responds to ACME"},
	{"METRICS_ADDR", "", "listen address of Prometheus metrics, such as 127.0.0.1:9090"},
	{"LOG_LEVEL", "info", "debug, info, warn or error"},
	{"LOG_FORMAT", "text", "text or json"},
	{"SHUTDOWN_TIMEOUT", "30s", "how long running downloads may continue after a signal"},
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

// otherNames are names of variables of other programs, which this one does not read.
var otherNames = map[string]string{"PORT": "ADDR", "LISTEN": "ADDR", "ADMIN_KEY": "ADMIN_API_KEY", "DATABASE_URI": "DATABASE_URL"}

// groups are prefixes of several variables. Any other variable with such a prefix is
// misspelled.
var groups = []string{"EXPORT_", "LOG_", "TLS_"}

// misspelled returns a sentence for each variable of environ, a list of NAME=value,
// that is not read but named like one that is: in another case, in the singular or
// plural, by the name of another program, or in one of the groups.
func misspelled(environ []string) (found []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		meant := otherNames[name]
		for _, v := range variables {
			if strings.TrimSuffix(strings.ToUpper(name), "S") == strings.TrimSuffix(v.name, "S") {
				meant = v.name
			}
		}
		switch {
		case meant == name:
		case meant != "":
			found = append(found, fmt.Sprintf("%s is not read, use %s", name, meant))
		case slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(name, group) }):
			found = append(found, name+" is not read")
		}
	}
	return found
}
