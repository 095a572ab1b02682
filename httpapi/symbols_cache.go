package httpapi

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"example.com/canvasback/symbols"
)

// longestList is how long an encoded list may be, in bytes, to be held in
// memory at all. Of longer ones the rest is encoded as it is written.
const longestList = 4 << 20

// symbolList is the encoded contents of a folder as of a version. A nil body
// stands for one that is not held.
type symbolList struct {
	version symbols.Version
	body    [][]byte // the parts of it, read only

	// after is 0 if the body is whole. Else the body begins when the folder
	// has the version, but may have been torn by a change already, and goes
	// on with the symbols that have ids above after.
	after int64
}

// size is what a list counts in the cache, in bytes.
func (l symbolList) size() int64 {
	size := int64(1 << 10) // what it is kept with
	for _, part := range l.body {
		size += int64(cap(part))
	}
	return size
}

// listCache keeps the encoded lists of the folders that were asked for last,
// one for each, and lets concurrent requests share the making of one. It is
// for the caller to know which version is the present one.
type listCache struct {
	limit int64 // bytes

	mu     sync.Mutex
	kept   map[int64]*list.Element // by folder; the values are keptList
	recent *list.List              // the least recently used last
	size   int64
	making map[int64]*listMaking // by folder
}

type keptList struct {
	folder int64
	symbolList
}

// listMaking is a list that is being made.
type listMaking struct {
	done chan struct{}
	list symbolList
	err  error
}

func newListCache(limit int64) *listCache {
	return &listCache{
		limit:  limit,
		kept:   make(map[int64]*list.Element),
		recent: list.New(),
		making: make(map[int64]*listMaking),
	}
}

// knows reports whether a request for the folder's list needs to know the
// present version.
func (c *listCache) knows(folder int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[folder] != nil || c.making[folder] != nil
}

// get returns the folder's list of the version, which the caller has just
// read, or a later one. If it is neither kept nor being made, it is made. A
// version of 0 asks for a new one. Who waits for a list that is being made has
// no more time than its maker: when the store does not answer one, both fail.
func (c *listCache) get(ctx context.Context, folder int64, version symbols.Version, encode func() (symbolList, error)) (symbolList, error) {
	const patience = 2 // someone else's list may be of an older version
	for range patience {
		found, other, mine := c.find(folder, version)
		switch {
		case mine != nil:
			return c.make(folder, mine, encode)
		case other == nil:
			return found, nil
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return symbolList{}, fmt.Errorf("%w: wait for the list: %w", symbols.ErrUnavailable, ctx.Err())
		}
		if other.err == nil && other.list.version == version || errors.Is(other.err, symbols.ErrUnavailable) {
			return other.list, other.err
		}
	}
	return encode()
}

// find returns the list if it is kept, else who makes it, else mine for the
// caller to make it.
func (c *listCache) find(folder int64, version symbols.Version) (found symbolList, other, mine *listMaking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.kept[folder]; element != nil {
		if kept := element.Value.(keptList); kept.version == version {
			c.recent.MoveToFront(element)
			return kept.symbolList, nil, nil
		}
	}
	if other = c.making[folder]; other != nil {
		return symbolList{}, other, nil
	}
	mine = &listMaking{done: make(chan struct{}), err: errors.New("the maker of the list has panicked")}
	c.making[folder] = mine
	return symbolList{}, nil, mine
}

// make makes a list, keeps it, and shows it to those who wait for it.
func (c *listCache) make(folder int64, mine *listMaking, encode func() (symbolList, error)) (symbolList, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.making, folder)
		if mine.err == nil {
			c.keep(keptList{folder, mine.list})
		}
		close(mine.done)
	}()
	mine.list, mine.err = encode()
	return mine.list, mine.err
}

// keep replaces the folder's list, and lets go of those that were not asked
// for the longest as long as there is too much. Of a list that is too long it
// keeps that it is.
func (c *listCache) keep(list keptList) {
	if list.after > 0 || list.size() > longestList {
		list.symbolList = symbolList{version: list.version}
	}
	if former := c.kept[list.folder]; former != nil {
		c.drop(former)
	}
	if list.size() > c.limit {
		return
	}
	c.kept[list.folder] = c.recent.PushFront(list)
	c.size += list.size()
	for c.size > c.limit {
		c.drop(c.recent.Back())
	}
}

func (c *listCache) drop(element *list.Element) {
	list := c.recent.Remove(element).(keptList)
	delete(c.kept, list.folder)
	c.size -= list.size()
}
