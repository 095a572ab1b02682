package apitest

import (
	"io/fs"
	"maps"
	"sync"
	"testing/fstest"
	"time"
)

// fileSystem is an in-memory file system whose files may be added while others
// are read.
type fileSystem struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (f *fileSystem) put(name, content string, modified time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := maps.Clone(f.files) // an Open may be reading the previous map
	files[name] = &fstest.MapFile{Data: []byte(content), ModTime: modified}
	f.files = files
}

// Open implements [fs.FS].
func (f *fileSystem) Open(name string) (fs.File, error) {
	f.mu.Lock()
	files := f.files
	f.mu.Unlock()
	return files.Open(name)
}
