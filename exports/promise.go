package exports

import (
	"errors"
	"math"
	"slices"
	"time"

	"example.com/canvasback/exports/filename"
)

// sizePatience is how long the size of a batch may keep its first byte.
const sizePatience = 250 * time.Millisecond

// promise is what has been told of a zip before it is written, and the layout
// that follows from it: each file has the name that it was promised with, so
// that the sizes of files alone decide whether it can be kept.
type promise struct {
	size  uint64
	files []prospect // by item
	upTo  []uint64   // by item: [zipWriter.used] behind it
}

// prospect is what the entry of a file is expected to be.
type prospect struct {
	name     string
	modified time.Time
	size     int64 // -1 if unknown
	whole    bool
	sure     bool  // it cannot change any more
	err      error // there will be none
}

// Size returns the size of the zip in bytes, or -1 if it is not known: a file
// has not been opened so early or its origin does not tell its size, and it is
// not remembered either. It is to be called before [Batch.WriteZip], which then
// writes so much or fails.
//
// A size is told only if each file that may yet fail leaves room for the words
// that say so in manifest.json. Whatever else the archive has less than was
// told, because a file has been left out or has become smaller, is padding, up
// to a quarter of it or 1 MiB. If that does not do, or a file has grown,
// WriteZip fails, and what is remembered of the batch is forgotten: the next
// try is without a size.
func (b *Batch) Size() int64 {
	if !b.ahead.foresee(sizePatience) {
		return -1
	}
	p := &promise{files: make([]prospect, len(b.items)), upTo: make([]uint64, len(b.items))}
	z := &zipWriter{}
	names := filename.NewSet(manifestName)
	skipped := slices.Clone(b.skipped)
	sure := true
	ahead := b.ahead.files[b.ahead.finished:]
	for i := b.next; i < len(b.items); i++ {
		file := prospect{err: ErrNotFound}
		if b.items[i].registered {
			file, ahead = b.ahead.prospect(ahead[0]), ahead[1:]
		}
		source := b.items[i].export.SourceURL
		if file.err != nil {
			skipped = append(skipped, skip(source, file.err))
		} else {
			if file.size < 0 || !file.sure && !b.ahead.service.sizes.steady(b.items[i].export) {
				return -1
			}
			before := z.used()
			file.name = names.Unique(file.name)
			z.plan(file.name, file.modified, uint64(file.size), file.whole)
			if !file.sure && z.used()-before < b.costOfSkipping(source) {
				return -1
			}
			sure = sure && file.sure
		}
		p.files[i], p.upTo[i] = file, z.used()
	}
	if len(skipped) > 0 {
		z.plan(manifestName, b.now, uint64(len(b.manifest(len(z.entries), skipped))), true)
	}
	p.size = z.total()
	if !sure {
		p.size += minPadding // so that a single byte can be made up for
	}
	b.promise = p
	return int64(p.size)
}

// costOfSkipping is the most that a manifest costs which says that a file has
// been skipped.
func (b *Batch) costOfSkipping(source string) uint64 {
	content := b.manifest(len(b.items), []Skipped{skip(source, ErrFailed)}) // the longest reason
	z := &zipWriter{offset: math.MaxUint32}                                 // the longest record
	z.plan(manifestName, b.now, uint64(len(content)), true)
	return z.used() - math.MaxUint32
}

// keep makes sure that the promise can be kept with the file whose turn it is,
// before anything of it is written. A file that does not tell its size is
// taken to have the promised one for as long as it can.
func (p *promise) keep(z *zipWriter, item int, file *prospect) error {
	promised := p.files[item]
	file.name = promised.name
	if file.size < 0 {
		file.size = max(promised.size, window+1)
	}
	end := *z
	end.plan(file.name, file.modified, uint64(file.size), file.whole)
	if end.used() > p.upTo[item] || p.upTo[item]-end.used() > bound(p.size) {
		return errPromise
	}
	z.limit = z.offset + p.upTo[item] - z.used()
	return nil
}

// broken passes on why the zip was not written. If it was for a promise, all
// that is remembered of its files is forgotten, because more of them may be
// new.
func (b *Batch) broken(err error) error {
	if !errors.Is(err, errPromise) {
		return err
	}
	sizes := b.ahead.service.sizes
	if b.next < len(b.items) {
		is := b.ready.download.Size
		if b.ready.whole {
			is = int64(len(b.ready.head))
		}
		sizes.doubt(b.items[b.next].export, b.promise.files[b.next].size, is)
	}
	for _, item := range b.items {
		if item.registered {
			sizes.mistrust(item.export)
		}
	}
	return err
}

// foresee reports whether the sizes of all files may be known soon. It waits
// for those that have started, if the others are remembered.
func (a *ahead) foresee(patience time.Duration) bool {
	for _, file := range a.files[a.started:] {
		if _, ok := a.service.sizes.recall(file.export); !ok {
			return false
		}
	}
	a.await(patience)
	return true
}

// prospect tells what is to be expected of a file: what it has turned out to
// be, or what is remembered of it.
func (a *ahead) prospect(file *pending) prospect {
	if file.known == nil {
		known, ok := a.service.sizes.recall(file.export)
		if !ok {
			return prospect{size: -1}
		}
		return prospect{
			name:     fileName(file.export, &File{Name: known.name}),
			modified: file.export.UpdatedAt,
			size:     known.size,
			whole:    known.size <= window,
		}
	}
	if err := file.known.err; err != nil {
		return prospect{err: err}
	}
	download := file.known.download
	p := prospect{
		name:     download.FileName,
		modified: modified(download, file.export),
		size:     download.Size,
		whole:    file.known.whole,
		sure:     file.known.whole,
	}
	if p.whole {
		p.size = int64(len(file.known.head))
	} else if p.size < 0 {
		if known, ok := a.service.sizes.recall(file.export); ok && known.size > window {
			p.size = known.size
		}
	}
	return p
}
