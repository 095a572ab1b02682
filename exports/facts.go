package exports

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/canvasback/exports/internal/checksum"
	"example.com/canvasback/exports/internal/writebehind"
)

const (
	storeTimeout    = 5 * time.Second
	maxFacts        = 100_000 // in the store
	maxFileFacts    = 10_000  // in memory
	maxFactBlocks   = 4 << 20 // of all facts in memory, 5 bytes each
	factsPerWrite   = 500
	maxWrongCRCs    = 1000             // hosts
	confirmInterval = 30 * time.Second // after which a confirmed fact is stored again
)

// urlDigest identifies an exported URL in a [Store].
func urlDigest(exportedURL string) Digest { return sha256.Sum256([]byte(exportedURL)) }

// version identifies a content of a file.
type version struct {
	validator string
	size      int64
}

// fileFact is what this process knows about one version of a file. Responses that
// read the file share it.
type fileFact struct {
	version

	url      Digest
	revision int64 // as in [Fact]
	sums     *checksum.Sums
	reading  chan struct{} // holds an element while missing sums are read

	// disproved is set when the fact has been replaced, because the content has
	// changed and the version has not.
	disproved atomic.Bool

	// Under the lock of facts.
	host        string // of the URL; empty if this process has not asked it
	stated      bool   // the CRC is what the upstream says
	contentType string
	name        string
	modified    time.Time
	seenAt      time.Time // when the upstream last confirmed the version
	storedAt    time.Time // seenAt in the store
	stored      int       // blocks in the store
	total       bool      // the CRC is in the store
}

// unconfirmed is the SeenAt of a fact that stands for no request to an upstream.
var unconfirmed = time.UnixMilli(0).UTC()

func newFileFact(url Digest, v version, revision int64) *fileFact {
	return &fileFact{
		version: v, url: url, revision: revision, sums: checksum.New(v.size), reading: make(chan struct{}, 1),
		seenAt: unconfirmed,
	}
}

// encode returns the stored form. The caller holds the lock of facts.
func (f *fileFact) encode() Fact {
	fact := Fact{
		URL: f.url, Validator: f.validator, Size: f.size, Revision: f.revision, Type: f.contentType, Name: f.name,
		Modified: f.modified, SeenAt: f.seenAt, Blocks: f.sums.Append(nil),
	}
	if crc, ok := f.sums.Total(); ok {
		fact.CRC32 = &crc
	}
	return fact
}

// facts is a write-behind cache of the facts in a store. For each URL it has the
// fact of the highest revision.
type facts struct {
	sync.Mutex
	loop    *writebehind.Loop
	store   Store
	now     func() time.Time
	files   map[Digest]*fileFact
	blocks  int // of all files
	unsaved map[Digest]*fileFact

	// wrongCRCs are hosts that have stated a wrong CRC, such as proxies that
	// transform content. What they state is ignored.
	wrongCRCs map[string]bool
}

func newFacts(store Store, now func() time.Time) *facts {
	k := &facts{store: store, now: now, files: make(map[Digest]*fileFact), unsaved: make(map[Digest]*fileFact), wrongCRCs: make(map[string]bool)}
	k.loop = writebehind.New(k.nextBatch)
	return k
}

// add puts a fact into the cache in place of a previous one, and evicts arbitrary
// others while the cache is too large. The caller holds the lock.
func (k *facts) add(f *fileFact) {
	k.remove(f.url)
	k.files[f.url] = f
	k.blocks += f.sums.Blocks()
	for other := range k.files {
		if len(k.files) <= maxFileFacts && k.blocks <= maxFactBlocks {
			return
		}
		if other != f.url {
			k.remove(other)
		}
	}
}

func (k *facts) remove(url Digest) {
	if f := k.files[url]; f != nil {
		delete(k.files, url)
		delete(k.unsaved, url)
		k.blocks -= f.sums.Blocks()
	}
}

// find returns the fact about a planned file. It has no sums if nothing is known
// about that version. The error is [ErrChanged] if the version has been disproved
// since the plan was made.
func (k *facts) find(e planEntry) (*fileFact, error) {
	url, v := urlDigest(e.URL), version{e.Validator, e.Size}
	k.Lock()
	f := k.files[url]
	switch {
	case f == nil, f.version != v, f.revision < e.Revision:
		f = newFileFact(url, v, e.Revision)
		k.add(f)
	case f.revision > e.Revision:
		k.Unlock()
		return nil, ErrChanged
	}
	k.Unlock()
	if e.CRC32 != nil && f.sums.SetTotal(*e.CRC32) != nil {
		k.disprove(f)
		return nil, ErrChanged
	}
	return f, nil
}

// confirm records a file as its upstream has just described it. It returns nil if
// the file has no validator or no suitable size.
func (k *facts) confirm(exportedURL string, file *File) *fileFact {
	if file.Validator == "" || file.Size < 0 || file.Size > checksum.MaxSize {
		return nil
	}
	url := urlDigest(exportedURL)
	k.Lock()
	f := k.files[url]
	if v := (version{file.Validator, file.Size}); f == nil {
		f = newFileFact(url, v, 0)
		k.add(f)
	} else if f.version != v {
		f = newFileFact(url, v, f.revision)
		k.add(f)
	}
	f.contentType, f.name, f.modified, f.seenAt = file.Type, file.Name, file.Modified.UTC().Truncate(time.Millisecond), k.now()
	if year := f.modified.Year(); year < 1970 || year > 9999 {
		f.modified = time.Time{}
	}
	f.host = hostOf(exportedURL)
	_, known := f.sums.Total()
	stated := file.CRC32 != nil && f.revision == 0 && !k.wrongCRCs[f.host]
	f.stated = f.stated || stated && !known
	k.Unlock()
	if stated && f.sums.SetTotal(*file.CRC32) != nil {
		return k.disprove(f)
	}
	k.save(f)
	return f
}

// describe returns the description of a file by its fact, as its upstream confirmed
// it at the given time.
func (k *facts) describe(f *fileFact) (file *File, seenAt time.Time) {
	k.Lock()
	defer k.Unlock()
	return &File{Size: f.size, Type: f.contentType, Name: f.name, Modified: f.modified, Validator: f.validator}, f.seenAt
}

// load returns what is known about the latest version of the files at URLs, in this
// process or in the store.
func (k *facts) load(ctx context.Context, urls []Digest) (map[Digest]*fileFact, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	list, err := k.store.FindFacts(ctx, urls...)
	if err != nil {
		return nil, storeError("find facts", err)
	}
	for _, stored := range list {
		k.merge(stored)
	}
	k.Lock()
	defer k.Unlock()
	known := make(map[Digest]*fileFact)
	for _, url := range urls {
		if f := k.files[url]; f != nil {
			known[url] = f
		}
	}
	return known, nil
}

// merge adds a stored fact to the cache, unless that has one of a higher revision, or
// of a version seen later. Sums that contradict each other disprove the version.
func (k *facts) merge(stored Fact) {
	k.Lock()
	f := k.files[stored.URL]
	v := version{stored.Validator, stored.Size}
	if f == nil || f.revision < stored.Revision || f.revision == stored.Revision && f.version != v && f.seenAt.Before(stored.SeenAt) {
		f = newFileFact(stored.URL, v, stored.Revision)
		k.add(f)
	}
	if f.version != v || f.revision != stored.Revision {
		k.Unlock()
		return
	}
	if f.seenAt.Before(stored.SeenAt) {
		f.contentType, f.name, f.modified, f.seenAt = stored.Type, stored.Name, stored.Modified, stored.SeenAt
	}
	f.storedAt = stored.SeenAt
	k.Unlock()

	blocks, err := f.sums.Merge(stored.Blocks)
	if err == nil && stored.CRC32 != nil {
		err = f.sums.SetTotal(*stored.CRC32)
	}
	if err != nil {
		k.disprove(f)
		return
	}
	k.Lock()
	f.stored, f.total = blocks, stored.CRC32 != nil
	k.Unlock()
}

// disprove records that the content of a version was not always the same. It returns
// the fact that replaces f, with no sums and a higher revision, so that plans which
// depend on f are outdated in each process that reads the file. If the store fails,
// other processes find the same difference.
//
// If the CRC of f was only stated by its upstream, other statements of that host are
// dropped too.
func (k *facts) disprove(f *fileFact) *fileFact {
	k.Lock()
	list := []*fileFact{f}
	if f.stated {
		if len(k.wrongCRCs) >= maxWrongCRCs {
			clear(k.wrongCRCs)
		}
		k.wrongCRCs[f.host] = true
		for _, other := range k.files {
			if other != f && other.host == f.host && other.stated && other.sums.Known() < other.sums.Blocks() {
				list = append(list, other)
			}
		}
	}
	var encoded []Fact
	for _, f := range list {
		f.disproved.Store(true)
		if newer := k.files[f.url]; newer != nil && newer.revision > f.revision {
			continue
		}
		next := newFileFact(f.url, f.version, f.revision+1)
		next.host, next.contentType, next.name, next.modified, next.seenAt = f.host, f.contentType, f.name, f.modified, f.seenAt
		k.add(next)
		encoded = append(encoded, next.encode())
	}
	next := k.files[f.url]
	k.Unlock()
	if len(encoded) > 0 {
		k.put(encoded)
	}
	return next
}

// doubt makes facts stand for no request to an upstream until that confirms them.
func (k *facts) doubt(list []*fileFact) {
	var encoded []Fact
	k.Lock()
	for _, f := range list {
		f.seenAt = unconfirmed
		encoded = append(encoded, f.encode())
	}
	k.Unlock()
	k.put(encoded)
}

func (k *facts) put(list []Fact) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return k.store.PutFacts(ctx, list, maxFacts)
}

// save stores what is new about a file, later.
func (k *facts) save(f *fileFact) {
	known := f.sums.Known()
	_, total := f.sums.Total()
	k.Lock()
	defer k.Unlock()
	isNew := known > f.stored || total && !f.total || f.seenAt.Sub(f.storedAt) > confirmInterval
	if isNew && k.files[f.url] == f {
		k.unsaved[f.url] = f
		k.loop.Start()
	}
}

// nextBatch returns the next write to the store. What cannot be stored is lost: it
// can be read again.
func (k *facts) nextBatch() (write func()) {
	k.Lock()
	defer k.Unlock()
	var batch []*fileFact
	for url, f := range k.unsaved {
		if len(batch) == factsPerWrite {
			break
		}
		batch = append(batch, f)
		delete(k.unsaved, url)
	}
	if len(batch) == 0 {
		return nil
	}
	return func() { k.write(batch) }
}

// write stores facts together with what other processes know of incomplete ones.
func (k *facts) write(batch []*fileFact) {
	var incomplete []Digest
	for _, f := range batch {
		if f.sums.Known() < f.sums.Blocks() {
			incomplete = append(incomplete, f.url)
		}
	}
	if len(incomplete) > 0 {
		if _, err := k.load(context.Background(), incomplete); err != nil {
			return
		}
	}
	k.Lock()
	batch = slices.DeleteFunc(batch, func(f *fileFact) bool { return k.files[f.url] != f })
	var list []Fact
	var known []int
	for _, f := range batch {
		known = append(known, f.sums.Known())
		list = append(list, f.encode())
	}
	k.Unlock()
	if k.put(list) != nil {
		return
	}
	k.Lock()
	defer k.Unlock()
	for i, f := range batch {
		f.total, f.storedAt = list[i].CRC32 != nil, list[i].SeenAt
		f.stored = known[i]
	}
}
