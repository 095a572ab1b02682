package apitest

import (
	"io/fs"
	"maps"
	"sync"
	"testing/fstest"
)

// fileSystem holds files that may be added while others are read.
type fileSystem struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (f *fileSystem) put(name, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := maps.Clone(f.files) // the former one may be in use
	files[name] = &fstest.MapFile{Data: []byte(content)}
	f.files = files
}

// Open implements [fs.FS].
func (f *fileSystem) Open(name string) (fs.File, error) {
	f.mu.Lock()
	files := f.files
	f.mu.Unlock()
	return files.Open(name)
}
