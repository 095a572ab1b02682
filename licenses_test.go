package canvasback

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// licenses are the accepted licenses: permissive ones, and the MPL, whose
// copyleft covers only its own files. A text is recognized by its words.
var licenses = []struct {
	name  string
	words []string
}{
	{"MIT", []string{"permission is hereby granted free of charge to any person obtaining a copy", "the above copyright notice and this permission notice shall be included"}},
	{"ISC", []string{"permission to use copy modify and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{"Apache-2.0", []string{"apache license version 2.0 january 2004", "each contributor hereby grants to you a perpetual"}},
	{"MPL-2.0", []string{"mozilla public license version 2.0", "each contributor hereby grants you a world-wide"}},
	{"BSD", []string{"redistribution and use in source and binary forms with or without modification are permitted provided that the following conditions are met", "redistributions in binary form must reproduce the above copyright notice"}},
	{"public domain", []string{"has been dedicated to the public domain by the authors"}},
}

// restrictions matches licenses that are not accepted, and clauses that restrict
// an accepted one.
var restrictions = regexp.MustCompile(`general public license|affero|commons clause|business source|server side public|elastic license|attribution-noncommercial|sharealike|all advertising materials`)

// notices are files of a module that are named like a license but are none.
var notices = map[string]string{
	"modernc.org/libc/LICENSE-3RD-PARTY.md":   "the MIT and BSD texts of musl, Go and others, from which it is translated",
	"modernc.org/memory/LICENSE-LOGO":         "the URL of a logo",
	"modernc.org/sqlite/LICENSE-3RD-PARTY.md": "the same texts for its dependencies",
}

// TestLicenses checks the license of every module that the shipped packages
// depend on, on each platform.
func TestLicenses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for path, dir := range shippedModules(t) {
		files, err := filepath.Glob(dir + "/*")
		is.NoErr(err)
		found := false
		for _, file := range files {
			name := filepath.Base(file)
			lower := strings.ToLower(name)
			if !strings.HasPrefix(lower, "licen") && !strings.HasPrefix(lower, "copying") || notices[path+"/"+name] != "" {
				continue
			}
			license := recognizeLicense(read(t, file))
			if license == "" {
				t.Errorf("%s: unknown or restricted license in %s", path, name)
			}
			t.Logf("%s: %s is %s", path, name, license)
			found = true
		}
		if !found {
			t.Errorf("%s: no license file", path)
		}
	}
}

// TestLicense_IsAccepted checks this module's own license.
func TestLicense_IsAccepted(t *testing.T) {
	t.Parallel()
	is.New(t).True(recognizeLicense(read(t, "LICENSE")) != "")
}

// recognizeLicense returns the name of an accepted license, or "". It ignores
// line breaks, comment marks, case and commas.
func recognizeLicense(text string) string {
	text = regexp.MustCompile(`(?m)^\s*(//|#|\*)`).ReplaceAllString(text, " ")
	text = strings.NewReplacer("\u201c", `"`, "\u201d", `"`, ",", "").Replace(strings.ToLower(text))
	text = strings.Join(strings.Fields(text), " ")
	// The MPL lists the GNU licenses as compatible "secondary licenses".
	own := regexp.MustCompile(`"secondary license" means .{0,300}?those licenses`).ReplaceAllString(text, "")
	if restrictions.MatchString(own) {
		return ""
	}
	for _, license := range licenses {
		if !slices.ContainsFunc(license.words, func(words string) bool { return !strings.Contains(text, words) }) {
			return license.name
		}
	}
	return ""
}

func TestRecognizeLicense_RejectsRestrictions(t *testing.T) {
	t.Parallel()
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy of this.\nThe above copyright notice and\n// this permission notice shall be included"
	for text, want := range map[string]string{
		mit: "MIT",
		mit + "\n\"Commons Clause\" License Condition v1.0": "",
		"":                                     "",
		"All rights reserved.":                 "",
		"GNU GENERAL PUBLIC LICENSE Version 3": "",
		"Business Source License 1.1":          "",
	} {
		if got := recognizeLicense(text); got != want {
			t.Errorf("license of %q: got %q, want %q", text, got, want)
		}
	}
}

// shippedModules returns the directories of the modules that the shipped
// packages depend on, by module path.
func shippedModules(t *testing.T) map[string]string {
	t.Helper()
	is := is.New(t)
	modules := make(map[string]string)
	for _, platform := range []string{"linux", "darwin", "windows"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./...")
		list.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", platform, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct{ Module *struct{ Path, Dir string } }
			err := dec.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			is.NoErr(err)
			if p.Module != nil && p.Module.Path != module {
				modules[p.Module.Path] = p.Module.Dir
			}
		}
	}
	if len(modules) < 10 {
		t.Fatalf("modules are %v", modules)
	}
	return modules
}
