package powerloss

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3/vfs"
)

// sectorSize is the unit that a disk writes completely or not at all.
const sectorSize = 512

// disk records what happens to the files of a database.
type disk struct {
	vfs.VFSFilename // of the operating system

	mu         sync.Mutex
	operations []operation
}

// operation is a change of a file, in order.
type operation struct {
	file   string // base name
	kind   kind
	offset int64 // or the size, after truncation
	data   []byte
}

type kind int

const (
	write kind = iota
	truncation
	syncing
	removal
)

// newDisk returns a disk that data source names select by vfs=NAME.
func newDisk(name string) *disk {
	d := &disk{VFSFilename: vfs.Find("os").(vfs.VFSFilename)}
	vfs.Register(name, d)
	return d
}

func (d *disk) record(o operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operations = append(d.operations, o)
}

// now returns the number of operations so far.
func (d *disk) now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.operations)
}

func (d *disk) Open(string, vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return nil, 0, errors.New("powerloss: only OpenFilename is supported")
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err != nil || flags&(vfs.OPEN_MAIN_DB|vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL) == 0 {
		return f, flags, err
	}
	return &file{File: f, disk: d, name: filepath.Base(name.String())}, flags, nil
}

func (d *disk) Delete(name string, syncDir bool) error {
	d.record(operation{file: filepath.Base(name), kind: removal})
	return d.VFSFilename.Delete(name, syncDir)
}

// file is a file of a database.
type file struct {
	vfs.File
	disk *disk
	name string
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.record(operation{file: f.name, kind: write, offset: offset, data: bytes.Clone(p)})
	return f.File.WriteAt(p, offset)
}

func (f *file) Truncate(size int64) error {
	f.disk.record(operation{file: f.name, kind: truncation, offset: size})
	return f.File.Truncate(size)
}

func (f *file) Sync(flags vfs.SyncFlag) error {
	err := f.File.Sync(flags)
	f.disk.record(operation{file: f.name, kind: syncing})
	return err
}

func (f *file) SharedMemory() vfs.SharedMemory { return f.File.(vfs.FileSharedMemory).SharedMemory() }

// losePower writes files to a directory, as they may be after a power loss behind the
// first n operations. Of each file, what was done before its last sync is there. Each
// sector that was written later is there or not, by chance. So is a removed file, until
// another one is synced: SQLite also syncs the directory of a new one.
func (d *disk) losePower(n int, random *rand.Rand, dir string) error {
	lastSync, lastOfAny := make(map[string]int), 0
	for i, o := range d.operations[:n] {
		if o.kind == syncing {
			lastSync[o.file], lastOfAny = i, i
		}
	}
	files := make(map[string][]byte)
	for i, o := range d.operations[:n] {
		last := lastSync[o.file]
		if o.kind == removal {
			last = lastOfAny
		}
		survives := func() bool { return i < last || random.IntN(2) == 0 }
		switch o.kind {
		case write:
			for at := 0; at < len(o.data); {
				size := min(sectorSize-int(o.offset+int64(at))%sectorSize, len(o.data)-at)
				if survives() {
					files[o.file] = writeAt(files[o.file], o.offset+int64(at), o.data[at:at+size])
				}
				at += size
			}
		case truncation:
			if survives() && int64(len(files[o.file])) > o.offset {
				files[o.file] = files[o.file][:o.offset]
			}
		case removal:
			if survives() {
				delete(files, o.file)
			}
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeAt writes p to a file, which may grow.
func writeAt(content []byte, offset int64, p []byte) []byte {
	if end := offset + int64(len(p)); end > int64(len(content)) {
		content = append(content, make([]byte, end-int64(len(content)))...)
	}
	copy(content[offset:], p)
	return content
}
