package bodies

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"sync"

	"example.com/canvasback/symbols"
)

// partKey identifies a part. That of a list begins after the id Range.After, and the
// key's Range.Limit is what the parts before have left of it.
type partKey struct {
	Key
	first bool // begins with the bracket of the list instead of a comma
}

// first returns the key of the first part of a body.
func (k Key) first() partKey { return partKey{k, true} }

// after returns the key of the part that follows p, and whether there is one.
func (k partKey) after(p *part) (next partKey, more bool) {
	limited := k.Range.Limit > 0
	k.first = false
	k.Range.After = p.last
	k.Range.Limit -= min(k.Range.Limit, p.records)
	return k, p.more && (!limited || k.Range.Limit > 0)
}

// part is a part of a body. It is read only, except for its pins.
type part struct {
	version  symbols.Version
	data     []byte
	gzip     bool   // the body that begins with the part is compressed
	deflated bool   // so is data
	crc      uint32 // of data before it was compressed, like size
	size     int64
	image    ImageInfo
	dropped  bool // data is too long for the cache

	// of a list
	records int
	last    int64 // id of the last record
	more    bool  // records follow
	ended   bool  // data has the end of the list: no record follows, or the limit is reached

	pinned int // responses; guarded by pins, like memory
	memory Memory
}

// cost returns how many bytes the part takes in memory.
func (p *part) cost() int64 {
	const overhead = 1 << 10
	return int64(cap(p.data)) + overhead
}

// cached returns the part with a key at version, or nil.
func (l *Library) cached(key partKey, version symbols.Version) *part {
	if p := l.cache.get(key, version); p != nil && !p.dropped {
		return p
	}
	return nil
}

// part reads the part with a key at version. What the store returns may be of a later
// version. In a list, a large symbol with more than size bytes of data is a [largeError].
//
// Requests share a read only if they have read the same version. The read starts after
// one of them has read version, so it is not older. Waiters have the deadline and the
// error of the request that reads.
func (l *Library) part(ctx context.Context, key partKey, version symbols.Version, size int64) (*part, error) {
	result, err, _ := l.fills.Do(fmt.Sprint(key, version, size), func() (any, error) { return l.load(ctx, key, size) })
	if err != nil {
		return nil, err
	}
	return result.(*part), nil
}

// largeError means that the memory for a symbol must be reserved before it is read.
type largeError struct{ size int64 }

func (e *largeError) Error() string { return "the symbol is large" }

// load reads a part from the store, encodes it and puts it into the cache.
func (l *Library) load(ctx context.Context, key partKey, size int64) (*part, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	select {
	case l.loads <- struct{}{}:
		defer func() { <-l.loads }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", symbols.ErrUnavailable, ctx.Err())
	}
	p, err := l.read(ctx, key, size)
	if err != nil {
		return nil, err
	}
	_, follows := key.after(p)
	if p.ended = !follows; p.ended && key.isList() {
		p.data = append(p.data, listEnd...)
	}
	p.gzip = key.Gzip && key.Kind != Image && (!key.first || follows || len(p.data) >= MinCompressed)
	const maxDeflated = 16 << 20 // longer ones are compressed while they are written
	if p.gzip && len(p.data) <= maxDeflated {
		p.crc, p.size = crc32.ChecksumIEEE(p.data), int64(len(p.data))
		p.data, p.deflated = deflate(p.data), true
	}
	l.cache.put(key, p)
	return p, nil
}

// read reads and encodes a part.
func (l *Library) read(ctx context.Context, key partKey, size int64) (*part, error) {
	switch key.Kind {
	case Folders:
		return l.readFolders(ctx, key)
	case Contents:
		if key.Fields.InInfo() {
			return l.readInfos(ctx, key)
		}
		return l.readSymbols(ctx, key, size)
	case Folder:
		folder, err := l.service.Tenant(key.Tenant).GetFolder(ctx, key.ID)
		return &part{version: folder.Version, data: AppendFolder(nil, folder)}, err
	case Symbol:
		symbol, err := l.service.Tenant(key.Tenant).GetSymbol(ctx, key.ID)
		return &part{version: symbol.Version, data: AppendFields(nil, symbol, cmp.Or(key.Fields, AllFields))}, err
	default:
		symbol, err := l.service.Tenant(key.Tenant).GetSymbol(ctx, key.ID)
		return imagePart(symbol), err
	}
}

func (l *Library) readFolders(ctx context.Context, key partKey) (*part, error) {
	const most = 1000
	selected := key.Range
	if selected.Limit == 0 || selected.Limit > most {
		selected.Limit = most
	}
	list, err := l.service.Tenant(key.Tenant).ListFolders(ctx, selected)
	if err != nil {
		return nil, err
	}
	p := &part{version: list.Version, more: list.More}
	key.open(p, 0)
	for _, folder := range list.Folders {
		p.data = AppendFolder(key.begin(p, folder.ID), folder)
	}
	return p, nil
}

func (l *Library) readSymbols(ctx context.Context, key partKey, size int64) (*part, error) {
	page, err := l.service.Tenant(key.Tenant).ListSymbols(ctx, key.ID, key.Range, func(needed int64) error {
		if needed > size {
			return &largeError{needed}
		}
		return nil
	}, key.Fields&detailFields != 0)
	if err != nil {
		return nil, err
	}
	encoded := 0
	for _, symbol := range page.Symbols {
		encoded += encodedSize(symbol.Name, symbol.Type, symbol.Data)
	}
	p := &part{version: page.Version, more: page.More}
	key.open(p, encoded)
	for i, symbol := range page.Symbols {
		p.data = appendFields(key.begin(p, symbol.ID), &page.Symbols[i], int64(len(symbol.Data)), key.Fields)
	}
	return p, nil
}

func (l *Library) readInfos(ctx context.Context, key partKey) (*part, error) {
	page, err := l.service.Tenant(key.Tenant).ListSymbolInfos(ctx, key.ID, key.Range)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, info := range page.Symbols {
		size += encodedSize(info.Name, info.Type, "")
	}
	p := &part{version: page.Version, more: page.More}
	key.open(p, size)
	for _, info := range page.Symbols {
		p.data = AppendInfo(key.begin(p, info.ID), info, key.Fields)
	}
	return p, nil
}

// open begins a part of a list whose records take about size bytes.
func (k partKey) open(p *part, size int) {
	p.data = make([]byte, 0, size+len("[]"))
	p.last = k.Range.After
	if k.first {
		p.data = append(p.data, '[')
	}
}

// begin begins a record and returns the data to append it to.
func (k partKey) begin(p *part, id int64) []byte {
	separated := k.first && p.records == 0
	p.records, p.last = p.records+1, id
	if separated {
		return p.data
	}
	return append(p.data, ',')
}

// pins counts the parts that responses have in memory, whether the cache still has them
// or not: each part once.
type pins struct{ mu sync.Mutex }

func (l *pins) pin(p *part, reserve func() (Memory, error)) error {
	if l.join(p) {
		return nil
	}
	memory, err := reserve()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.pinned++; p.pinned > 1 { // another response was first
		memory.Release()
		return nil
	}
	p.memory = memory
	return nil
}

// join adds a response to those that have pinned a part, and returns false if there are
// none.
func (l *pins) join(p *part) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.pinned == 0 {
		return false
	}
	p.pinned++
	return true
}

func (l *pins) unpin(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.pinned--; p.pinned == 0 {
		p.memory.Release()
	}
}
