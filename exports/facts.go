package exports

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/internal/checksum"
)

const (
	storeTimeout  = 5 * time.Second
	maxFacts      = 100_000 // in the store
	maxFileFacts  = 10_000  // in memory
	factsPerWrite = 500
	factAge       = 30 * time.Second // after which a confirmed fact is stored again
)

// urlDigest identifies an exported URL in a [Store].
func urlDigest(exportedURL string) Digest { return sha256.Sum256([]byte(exportedURL)) }

// fileFact is what this process knows about one version of a file. Responses that
// read the file share it.
type fileFact struct {
	url         Digest
	validator   string
	size        int64
	contentType string
	name        string
	modified    time.Time
	sums        *checksum.Sums
	reading     chan struct{} // holds an element while missing sums are read

	// Under facts.mu.
	seenAt   time.Time
	storedAt time.Time // seenAt in the store
	stored   int       // blocks in the store
	total    bool      // the CRC is in the store
}

// facts is a write-behind cache of the facts in a store, and of what links have
// served. One goroutine writes both; it exists only while there is something to
// write.
type facts struct {
	store Store
	now   func() time.Time

	mu      sync.Mutex
	files   map[Digest]*fileFact
	unsaved map[Digest]*fileFact
	usage   map[Digest]*linkUsage
	writing chan struct{} // closed when the goroutine ends; nil without one
}

func newFacts(store Store, now func() time.Time) *facts {
	return &facts{
		store:   store,
		now:     now,
		files:   make(map[Digest]*fileFact),
		unsaved: make(map[Digest]*fileFact),
		usage:   make(map[Digest]*linkUsage),
	}
}

// find returns the fact about a version of a file, with no sums if nothing is known
// about that version.
func (k *facts) find(url Digest, validator string, size int64) *fileFact {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[url]
	if f == nil || f.validator != validator || f.size != size {
		f = &fileFact{url: url, validator: validator, size: size, sums: checksum.New(size), reading: make(chan struct{}, 1)}
		k.add(f)
	}
	return f
}

// add puts a fact into the cache, and evicts an arbitrary one if that is full.
func (k *facts) add(f *fileFact) {
	k.files[f.url] = f
	for other := range k.files {
		if len(k.files) <= maxFileFacts {
			return
		}
		if other != f.url {
			delete(k.files, other)
		}
	}
}

// confirm records a file as its upstream has just described it. It returns nil if
// the file has no validator or no known size.
func (k *facts) confirm(url Digest, file *File) *fileFact {
	if file.Validator == "" || file.Size < 0 {
		return nil
	}
	f := k.find(url, file.Validator, file.Size)
	k.mu.Lock()
	f.contentType, f.name, f.modified, f.seenAt = file.Type, file.Name, file.Modified.UTC().Truncate(time.Millisecond), k.now()
	if year := f.modified.Year(); year < 1970 || year > 9999 {
		f.modified = time.Time{}
	}
	k.mu.Unlock()
	if file.CRC32 != nil && f.sums.SetTotal(*file.CRC32) != nil {
		k.drop(f)
		return k.find(url, file.Validator, file.Size)
	}
	k.save(f)
	return f
}

// file returns the description of a file from its fact.
func (k *facts) file(f *fileFact) *File {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &File{Size: f.size, Type: f.contentType, Name: f.name, Modified: f.modified, Validator: f.validator}
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
	k.mu.Lock()
	defer k.mu.Unlock()
	known := make(map[Digest]*fileFact)
	for _, url := range urls {
		if f := k.files[url]; f != nil {
			known[url] = f
		}
	}
	return known, nil
}

// merge adds a stored fact to the cache. Of two versions of a file, the one seen
// later stays. Sums that contradict each other are forgotten.
func (k *facts) merge(stored Fact) {
	k.mu.Lock()
	f := k.files[stored.URL]
	if f != nil && (f.validator != stored.Validator || f.size != stored.Size) {
		if !f.seenAt.Before(stored.SeenAt) {
			k.mu.Unlock()
			return
		}
		f = nil
	}
	if f == nil {
		f = &fileFact{
			url: stored.URL, validator: stored.Validator, size: stored.Size,
			sums: checksum.New(stored.Size), reading: make(chan struct{}, 1),
		}
		k.add(f)
	}
	if f.seenAt.Before(stored.SeenAt) {
		f.contentType, f.name, f.modified, f.seenAt = stored.Type, stored.Name, stored.Modified, stored.SeenAt
	}
	f.storedAt = stored.SeenAt
	k.mu.Unlock()

	blocks, err := f.sums.Merge(stored.Blocks)
	if err == nil && stored.CRC32 != nil {
		err = f.sums.SetTotal(*stored.CRC32)
	}
	if err != nil {
		k.drop(f)
		return
	}
	k.mu.Lock()
	f.stored, f.total = blocks, stored.CRC32 != nil
	k.mu.Unlock()
}

// drop forgets a fact that is wrong, in the store too. If that fails, the next read
// finds the same error.
func (k *facts) drop(f *fileFact) { k.dropAll([]*fileFact{f}) }

// reload makes the next load read the facts about entries from the store, where
// another process may have dropped them.
func (k *facts) reload(entries []planEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range entries {
		delete(k.files, urlDigest(e.URL))
	}
}

// dropAll forgets facts that may be wrong.
func (k *facts) dropAll(list []*fileFact) {
	var urls []Digest
	for _, f := range list {
		k.forget(f)
		urls = append(urls, f.url)
	}
	if len(urls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	k.store.DeleteFacts(ctx, urls...)
}

// confirmedSince reports whether the upstream has confirmed a fact after t.
func (k *facts) confirmedSince(f *fileFact, t time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f.seenAt.After(t)
}

func (k *facts) forget(f *fileFact) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files[f.url] == f {
		delete(k.files, f.url)
	}
	if k.unsaved[f.url] == f {
		delete(k.unsaved, f.url)
	}
}

// save stores what is new about a file, later.
func (k *facts) save(f *fileFact) {
	known := f.sums.Known()
	_, total := f.sums.Total()
	k.mu.Lock()
	defer k.mu.Unlock()
	isNew := !total && known > f.stored || total && !f.total || f.seenAt.Sub(f.storedAt) > factAge
	if !isNew || k.files[f.url] != f || len(k.unsaved) >= maxFileFacts {
		return
	}
	k.unsaved[f.url] = f
	k.startWriting()
}

// startWriting starts the goroutine. The caller holds the lock.
func (k *facts) startWriting() {
	if k.writing == nil {
		k.writing = make(chan struct{})
		go k.write()
	}
}

// write stores facts and usage until there is nothing left. What cannot be stored
// is lost: it can be learned again.
func (k *facts) write() {
	for {
		k.mu.Lock()
		var batch []*fileFact
		for url, f := range k.unsaved {
			if len(batch) == factsPerWrite {
				break
			}
			batch = append(batch, f)
			delete(k.unsaved, url)
		}
		served := make(map[Digest]int64)
		for link, u := range k.usage {
			if u.unsaved > 0 {
				served[link] = u.unsaved
			}
		}
		if len(batch) == 0 && len(served) == 0 {
			close(k.writing)
			k.writing = nil
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		k.writeFacts(batch)
		for link, amount := range served {
			k.writeServed(link, amount)
		}
	}
}

func (k *facts) writeServed(link Digest, amount int64) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	k.store.AddServed(ctx, link, amount)
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.usage[link]
	u.unsaved -= amount
	k.release(link, u)
}

// writeFacts stores facts together with what other processes know.
func (k *facts) writeFacts(batch []*fileFact) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	var partial []Digest
	for _, f := range batch {
		if _, ok := f.sums.Total(); !ok {
			partial = append(partial, f.url)
		}
	}
	if len(partial) > 0 {
		list, err := k.store.FindFacts(ctx, partial...)
		if err != nil {
			return
		}
		for _, stored := range list {
			k.merge(stored)
		}
	}
	var list []Fact
	k.mu.Lock()
	for _, f := range batch {
		if k.files[f.url] != f { // dropped, or replaced by a newer version
			continue
		}
		fact := Fact{
			URL: f.url, Validator: f.validator, Size: f.size, Type: f.contentType, Name: f.name,
			Modified: f.modified, SeenAt: f.seenAt, Blocks: f.sums.Append(nil),
		}
		crc, ok := f.sums.Total()
		if ok {
			fact.CRC32 = &crc
		}
		f.stored, f.total, f.storedAt = f.sums.Known(), ok, f.seenAt
		list = append(list, fact)
	}
	k.mu.Unlock()
	k.store.PutFacts(ctx, list, maxFacts)
}

// flush waits until all that was saved before is stored.
func (k *facts) flush(ctx context.Context) error {
	k.mu.Lock()
	writing := k.writing
	k.mu.Unlock()
	if writing == nil {
		return nil
	}
	select {
	case <-writing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cleanFile removes from a description of a file what stores cannot hold.
func cleanFile(file File) File {
	clean := func(text string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	}
	file.Type, file.Name = clean(file.Type), clean(file.Name)
	if !utf8.ValidString(file.Validator) || strings.ContainsRune(file.Validator, 0) {
		file.Validator = ""
	}
	return file
}
