package console

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"example.com/canvasback/httpapi/client"
)

var importLine = regexp.MustCompile(`(?m)^import \{ (.*) \} from "(.+)";\n`)

// joinModules returns the modules of a script as one, without those of the main script,
// from which it imports. Their imports are four levels deep, each of which would cost a
// round trip, and one file is a third smaller than many when compressed. It requires
// that top-level names are unique and that an import is one line.
func joinModules(script string) ([]byte, error) {
	modules, err := modulesOf(script)
	if err != nil {
		return nil, err
	}
	var shared []string
	if script != mainScript {
		if shared, err = modulesOf(mainScript); err != nil {
			return nil, err
		}
	}
	var joined bytes.Buffer
	imported := make(map[string]bool)
	for _, name := range modules {
		if slices.Contains(shared, name) {
			continue
		}
		content, err := readModule(name)
		if err != nil {
			return nil, err
		}
		for _, line := range importLine.FindAllStringSubmatch(string(content), -1) {
			if !slices.Contains(shared, path.Clean(line[2])) {
				continue
			}
			for identifier := range strings.SplitSeq(line[1], ", ") {
				imported[identifier] = true
			}
		}
		joined.Write(importLine.ReplaceAll(content, nil))
	}
	if len(imported) == 0 {
		return joined.Bytes(), nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(imported)), ", ")
	return []byte("import { " + names + ` } from "./` + mainScript + "\";\n" + joined.String()), nil
}

// modulesOf returns the names of the modules that a script imports, and its own, each
// behind those that it imports.
func modulesOf(script string) ([]string, error) {
	var names []string
	seen := make(map[string]bool)
	var add func(name string) error
	add = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		content, err := readModule(name)
		if err != nil {
			return err
		}
		for _, line := range importLine.FindAllSubmatch(content, -1) {
			if err := add(path.Clean(string(line[2]))); err != nil {
				return err
			}
		}
		names = append(names, name)
		return nil
	}
	err := add(script)
	return names, err
}

// readModule returns a module, which may be that of the client.
func readModule(name string) ([]byte, error) {
	if dir, file := path.Split(name); dir == "../../client/" {
		return fs.ReadFile(client.Files, file)
	}
	return page.ReadFile("page/" + name)
}
