package client_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/client"
	"example.com/canvasback/storage/testflag"
)

// npx returns a command that runs programs of npm packages.
func npx(dir string, args ...string) *exec.Cmd {
	command := exec.Command("npx", append([]string{
		"--yes", "--prefer-offline", "--package", "openapi-typescript@7.10.1", "--package", "typescript@5.9.3", "--",
	}, args...)...)
	command.Dir = dir
	return command
}

// TestTypes_AreThoseOfTheDocument compares client.d.ts with the types that
// openapi-typescript generates from the OpenAPI document. It needs npm, and the
// network the first time.
func TestTypes_AreThoseOfTheDocument(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	if output, err := npx(dir, "tsc", "--version").CombinedOutput(); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: npx: %v %s", err, output)
	}
	types, err := fs.ReadFile(client.Files, "client.d.ts")
	is.NoErr(err)
	check, err := os.ReadFile("testdata/check.ts")
	is.NoErr(err)
	for name, text := range map[string]string{
		"openapi.json": string(httpapi.OpenAPI()),
		"client.d.ts":  string(types),
		"check.ts":     string(check) + checks(documented(t)),
	} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, command := range []string{
		"openapi-typescript --default-non-nullable false -o schema.d.ts openapi.json",
		"tsc --strict --noEmit --target es2022 --module esnext --moduleResolution bundler --lib es2022,dom check.ts",
		"npm install --prefer-offline --no-save @types/node@24.10.1",
		"tsc --strict --noEmit --target es2022 --module nodenext --lib es2022 --types node client.d.ts", // without a browser
	} {
		output, err := npx(dir, strings.Fields(command)...).CombinedOutput()
		t.Logf("%s", output)
		is.NoErr(err)
	}
}

// checks returns the statements of check.ts about operations.
func checks(operations []operation) string {
	var out strings.Builder
	var names []string
	for _, o := range operations {
		names = append(names, fmt.Sprintf("%q", o.name))
		var ids []string
		for _, match := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(o.path, -1) {
			ids = append(ids, match[1])
		}
		for i, id := range ids {
			fmt.Fprintf(&out, "equal<Arguments<%q>[%d], Path<%[1]q>[%[3]q]>();\n", o.name, i, id)
		}
		count := len(ids)
		if o.method == "POST" || o.method == "PATCH" {
			if o.kind != "upload" {
				fmt.Fprintf(&out, "accept<Arguments<%q>[%d], Body<%[1]q>>();\n", o.name, count)
			}
			count++
		}
		fmt.Fprintf(&out, "accept<Options<Arguments<%q>[%d]>, Query<%[1]q>>();\n", o.name, count)
		fmt.Fprintf(&out, "equal<Arguments<%q>[\"length\"], %d>();\n", o.name, count+1)
		file := ""
		if o.kind == "file" {
			file = " | Response"
		}
		fmt.Fprintf(&out, "equal<Awaited<ReturnType<Client[%q]>>, Result<%[1]q>%s>();\n", o.name, file)
	}
	fmt.Fprintf(&out, "equal<keyof Operations, %s>();\n", strings.Join(names, " | "))
	return out.String()
}
