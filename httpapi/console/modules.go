package console

import (
	"embed"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"example.com/canvasback/httpapi/client"
)

const (
	mainScript    = "main.js"
	symbolsScript = "symbols.js" // loaded when its screen is opened
)

// importLine matches an import, which is one line.
var importLine = regexp.MustCompile(`(?m)^import \{ (.*) \} from "(.+)";\n`)

// readFile returns a file of the console. A script has the modules that it imports in
// it: they are four levels deep, each of which would cost a round trip, and one file is a
// third smaller than many when compressed. Top-level names must be unique. The script of
// the symbols imports what the main script has.
func readFile(name string) []byte {
	if path.Ext(name) != ".js" {
		return readEmbedded(page, "page/"+name)
	}
	j := joiner{seen: make(map[string]bool), imported: make(map[string]bool)}
	if name != mainScript {
		j.add(mainScript)
		j.shared, j.text, j.seen = j.seen, nil, make(map[string]bool)
	}
	j.add(name)
	if len(j.imported) > 0 {
		names := slices.Sorted(maps.Keys(j.imported))
		j.text = append([]byte("import { "+strings.Join(names, ", ")+` } from "./`+mainScript+"\";\n"), j.text...)
	}
	return j.text
}

// readEmbedded returns a file of the program, whose names are constants.
func readEmbedded(files embed.FS, name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return content
}

type joiner struct {
	seen     map[string]bool // modules in the text
	shared   map[string]bool // modules that are not to be in it
	imported map[string]bool // names of those
	text     []byte
}

// add adds a module behind those that it imports. That of the client is elsewhere.
func (j *joiner) add(name string) {
	if j.seen[name] {
		return
	}
	j.seen[name] = true
	files, file := page, "page/"+name
	if dir, base := path.Split(name); dir == "../../client/" {
		files, file = client.Files, base
	}
	content := readEmbedded(files, file)
	for _, line := range importLine.FindAllStringSubmatch(string(content), -1) {
		from := path.Clean(line[2])
		if !j.shared[from] {
			j.add(from)
			continue
		}
		for identifier := range strings.SplitSeq(line[1], ", ") {
			j.imported[identifier] = true
		}
	}
	j.text = append(j.text, importLine.ReplaceAll(content, nil)...)
}
