package canvasback

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// licences are those under which a program may take work in by naming whose it
// is, and the MPL, which asks no more of who leaves its files as they are. Each
// has words that are in its text and in no other's.
var licences = []struct {
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

// restrictions turn a licence into another, or belong to one that is not above.
var restrictions = regexp.MustCompile(`general public license|affero|commons clause|business source|server side public|elastic license|attribution-noncommercial|sharealike|all advertising materials`)

// notices lie beside the licence of a module and are none themselves.
var notices = map[string]string{
	"modernc.org/libc/LICENSE-3RD-PARTY.md":   "the MIT and BSD texts of what it was made from: musl, Go and others",
	"modernc.org/memory/LICENSE-LOGO":         "the address of a picture",
	"modernc.org/sqlite/LICENSE-3RD-PARTY.md": "the same texts once more, for all that it is made of",
}

// TestLicences fails on a dependency of the shipped packages, on any platform,
// whose licence is not one of those above.
func TestLicences(t *testing.T) {
	t.Parallel()
	for path, dir := range shippedModules(t) {
		files, err := filepath.Glob(dir + "/*")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			name := filepath.Base(file)
			switch lower := strings.ToLower(name); {
			case !strings.HasPrefix(lower, "licen") && !strings.HasPrefix(lower, "copying"), notices[path+"/"+name] != "":
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			licence := recognise(string(text))
			if licence == "" {
				t.Errorf("%s: nobody knows the licence in %s", path, name)
			}
			t.Logf("%s: %s is %s", path, name, licence)
			found = true
		}
		if !found {
			t.Errorf("%s has no licence", path)
		}
	}
}

// recognise recognises a text, whatever its line breaks, comment marks and
// commas.
func recognise(text string) string {
	text = regexp.MustCompile(`(?m)^\s*(//|#|\*)`).ReplaceAllString(text, " ")
	text = strings.NewReplacer("\u201c", `"`, "\u201d", `"`, ",", "").Replace(strings.ToLower(text))
	text = strings.Join(strings.Fields(text), " ")
	// The MPL names the GNU licences as those that a work under it may be put
	// under too.
	own := regexp.MustCompile(`"secondary license" means .{0,300}?those licenses`).ReplaceAllString(text, "")
	if restrictions.MatchString(own) {
		return ""
	}
	for _, licence := range licences {
		all := true
		for _, words := range licence.words {
			all = all && strings.Contains(text, words)
		}
		if all {
			return licence.name
		}
	}
	return ""
}

func TestRecognise_knowsNoOther(t *testing.T) {
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
		if got := recognise(text); got != want {
			t.Errorf("%q is taken for %q, want %q", text, got, want)
		}
	}
}

// shippedModules returns the directories of the modules that the shipped
// packages import, directly or not, by their paths.
func shippedModules(t *testing.T) map[string]string {
	t.Helper()
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
			if err != nil {
				t.Fatal(err)
			}
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
