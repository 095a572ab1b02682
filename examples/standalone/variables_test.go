package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestMisspelled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for name, meant := range map[string]string{
		"addr":             "ADDR",
		"DATABASE_URI":     "DATABASE_URL",
		"EXPORT_S3_BUCKET": "EXPORT_S3_BUCKETS",
		"CORS_ORIGIN":      "CORS_ORIGINS",
		"TLS_HOST":         "TLS_HOSTS",
		"PORT":             "ADDR",
		"ADMIN_KEY":        "ADMIN_API_KEY",
	} {
		is.Equal(misspelled([]string{"PATH=/bin", name + "=x"}), []string{name + " is not read, use " + meant})
	}
	is.Equal(misspelled([]string{"EXPORT_S3_REGIN=x", "EXPORT_DIR=x"}), []string{"EXPORT_S3_REGIN is not read"})
	is.Equal(misspelled([]string{"PATH=/bin", "HOME=/root", "TERM=xterm", "TMPDIR=/tmp", "LANG=C", "SHELL=/bin/sh", "AWS_REGION=x", "ADDR=:1", "broken"}), nil)
}

// DEPLOY.md names existing variables only.
func TestVariables_InDocumentation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	text, err := os.ReadFile("../../.github/DEPLOY.md")
	is.NoErr(err)
	names := regexp.MustCompile("(?m)(?:`|^| )([A-Z][A-Z0-9_]{3,})(?:=|`)").FindAllStringSubmatch(string(text), -1)
	is.True(len(names) > 10)
	for _, name := range names {
		t.Log(name[1])
		is.True(slices.ContainsFunc(variables, func(v variable) bool { return v.name == name[1] }) || name[1] == "CGO_ENABLED")
	}
}

func TestClientIPs_Find(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		header, proxies, remote string
		sent                    http.Header
		want                    string
	}{
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "192.0.2.9:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.9"}, // a client sets the header itself
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"203.0.113.5, 192.0.2.1, 10.2.2.2"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"203.0.113.5", "192.0.2.1"}}, "192.0.2.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"10.3.3.3"}}, "10.3.3.3"},
		{"", "10.0.0.0/8", "10.1.1.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1, unknown"}}, "10.1.1.1"},
		{"", "10.0.0.0/8", "10.1.1.1:5", nil, "10.1.1.1"},
		{"", "::1,fd00::/8", "[::1]:5", http.Header{"X-Forwarded-For": {"::ffff:192.0.2.1"}}, "192.0.2.1"},
		{"", "127.0.0.1", "[::ffff:127.0.0.1]:5", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1"},
		{"X-Real-IP", "127.0.0.1", "127.0.0.1:5", http.Header{"X-Real-Ip": {"192.0.2.1"}, "X-Forwarded-For": {"192.0.2.2"}}, "192.0.2.1"},
		{"X-Real-IP", "127.0.0.1", "192.0.2.9:5", http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.9"},
		{"X-Real-IP", "", "192.0.2.9:5", http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.1"},
	} {
		ips, err := parseClientIPs(c.header, splitList(c.proxies))
		is.NoErr(err)
		got := ips.function()(&http.Request{RemoteAddr: c.remote, Header: c.sent})
		is.Equal(got, c.want)
	}
}

func TestMain_RejectsArguments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for argument, want := range map[string]string{"serve": `unexpected argument "serve"`, "-addr=:80": "not defined: -addr", "-version": "go1."} {
		out, err := programCommand(t, nil, argument).CombinedOutput()
		is.True(strings.Contains(string(out), want))
		is.Equal(err == nil, argument == "-version")
	}
}

// programCommand runs the program, which is this test binary, with these variables
// and no others.
func programCommand(t *testing.T, env []string, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), testBinary, arguments...)
	command.Env = append(env, asProgram+"=1")
	return command
}
