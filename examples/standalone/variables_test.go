package main

import (
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
	misspelled := func(environ []string) []string {
		return new(config).variables().Misspelled(environ, otherNames, "EXPORT_", "LOG_", "TLS_")
	}
	for name, meant := range map[string]string{
		"addr":             "ADDR",
		"DATABASE_URI":     "DATABASE_URL",
		"EXPORT_S3_BUCKET": "EXPORT_S3_BUCKETS",
		"CORS_ORIGIN":      "CORS_ORIGINS",
		"CORS":             "CORS_ORIGINS",
		"DATABASE":         "DATABASE_URL",
		"METRICS_PORT":     "METRICS_ADDR",
		"TLS_HOST":         "TLS_HOSTS",
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
	text := must(os.ReadFile("../../.github/DEPLOY.md"))(t)
	known := new(config).variables().Usage()
	names := regexp.MustCompile("(?m)(?:`|^| )([A-Z][A-Z0-9_]{3,})(?:=|`)").FindAllStringSubmatch(string(text), -1)
	is.True(len(names) > 10)
	for _, name := range names {
		t.Log(name[1])
		is.True(strings.Contains(known, "  "+name[1]+" ") || slices.Contains([]string{"CGO_ENABLED", "SQLITE_TMPDIR"}, name[1]))
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
	command.Env = append([]string{"REGISTER_WITH=client", asProgram + "=1"}, env...)
	return command
}
