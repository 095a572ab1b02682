package console

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"

	"example.com/canvasback/httpapi/client"
)

var (
	importLine = regexp.MustCompile(`(?m)^import .* from "(.+)";$`)

	// omitted are imports, exports, comments on lines of their own, and indentation,
	// a tenth of the compressed page.
	omitted = regexp.MustCompile(`(?m)^import .*\n|^export |^\s*// .*\n|^/\*.*\*/\n|^\s+`)
)

// joinModules returns the modules of the page as one, those that others import first.
// Their imports are four levels deep, each of which would cost a round trip, and one
// file is a third smaller than many when compressed. It requires that top-level names
// are unique and that an import is one line.
func joinModules() ([]byte, error) {
	var joined bytes.Buffer
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
		for _, imported := range importLine.FindAllSubmatch(content, -1) {
			if err := add(path.Clean(string(imported[1]))); err != nil {
				return err
			}
		}
		joined.Write(content)
		return nil
	}
	err := add(script)
	return joined.Bytes(), err
}

// readModule returns a module, which may be that of the client.
func readModule(name string) ([]byte, error) {
	if dir, file := path.Split(name); dir == "../../client/" {
		return fs.ReadFile(client.Files, file)
	}
	return page.ReadFile("page/" + name)
}
