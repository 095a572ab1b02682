package symbols

import (
	"context"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/canvasback/symbols/fresh"
)

// Position is a place in the history of a database. The numbers of one history ascend.
type Position struct{ History, Number int64 }

// ChangeSet is what may have changed until a position.
type ChangeSet struct {
	Position
	Changed []Changed
}

// Changed is a folder list, or a folder whose contents may have changed.
type Changed struct {
	Tenant   string
	FolderID int64 // 0: the folder list
	Number   int64 // another one after each change
}

// reaches reports whether the set has all that has changed since a position.
func (c ChangeSet) reaches(since Position) bool {
	return since.History == c.History && since.Number <= c.Number
}

// Change is what may have changed in the library of a tenant. It may be nothing.
type Change struct {
	ID        string  // from which [Service.Follow] continues
	All       bool    // everything; the other fields are empty
	Folders   bool    // the list of folders
	FolderIDs []int64 // of folders whose contents may have changed; ascending
}

// maxChangedFolders is the length of FolderIDs from which a Change is one of everything.
const maxChangedFolders = 1000

func (c *Change) add(changed Changed) {
	at, found := slices.BinarySearch(c.FolderIDs, changed.FolderID)
	switch {
	case c.All || found:
	case changed.FolderID == 0:
		c.Folders = true
	case len(c.FolderIDs) == maxChangedFolders:
		*c = Change{All: true}
	default:
		c.FolderIDs = slices.Insert(c.FolderIDs, at, changed.FolderID)
	}
}

// String returns the ID of a Change.
func (p Position) String() string {
	return strconv.FormatInt(p.History, 36) + "." + strconv.FormatInt(p.Number, 36)
}

// in returns the position with the history of a tenant, so that an ID of another tenant is
// hardly ever of a known history. For a position that it has returned, it returns the original.
func (p Position) in(tenant string) Position {
	if p == (Position{}) {
		return p // of no history
	}
	return Position{p.History ^ int64(crc32.ChecksumIEEE([]byte(tenant))), p.Number}
}

// parsePosition returns the position of an ID, or one of no history.
func parsePosition(id string) Position {
	history, number, _ := strings.Cut(id, ".")
	h, _ := strconv.ParseInt(history, 36, 64)
	n, _ := strconv.ParseInt(number, 36, 64)
	if p := (Position{h, n}); p.String() == id { // not if a number was invalid
		return p
	}
	return Position{}
}

// Follower follows the changes of a library by any process. It is for one goroutine.
type Follower struct {
	feed    *changeFeed
	tenant  string
	wake    chan struct{} // has an element if there are changes
	pending Change        // protected by changeFeed.mu
}

// Follow returns what changes after the Change with an ID; the caller must close it. The
// first Change is one of everything if the ID is empty or not one of this database, and
// may be of nothing. Each later change is there within half a second. Changes may be joined,
// and may name more than has changed.
//
// All followers together read the store five times a second, and each once more when it
// begins.
func (s *Service) Follow(ctx context.Context, id string) (*Follower, error) {
	since := parsePosition(id).in(s.tenant)
	set, err := s.reads.changes.Get(ctx, since, s.store.Changes)
	if err != nil {
		return nil, storeError("read changes", err)
	}
	return s.changes.join(s.tenant, since, set), nil
}

// Changes returns a channel that has an element when Take has something.
func (f *Follower) Changes() <-chan struct{} { return f.wake }

// Take returns what has changed since the last call.
func (f *Follower) Take() Change {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	change := f.pending
	change.ID = f.feed.position.in(f.tenant).String()
	f.pending = Change{}
	return change
}

// Close ends the follower.
func (f *Follower) Close() { f.feed.leave(f) }

// add adds changes and wakes the follower up.
func (f *Follower) add(list []Changed, all bool) {
	if all {
		f.pending = Change{All: true}
	}
	for _, changed := range list {
		if changed.Tenant == f.tenant {
			f.pending.add(changed)
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

const pollInterval = 200 * time.Millisecond // while somebody follows the changes

// changeFeed reads the changes for all that follow them. It reads nothing while nobody
// does.
//
// Invariant: followers have been given all that has changed until position.
type changeFeed struct {
	store Store // of any tenant

	mu        sync.Mutex
	followers map[*Follower]struct{}
	stop      context.CancelFunc // of the running goroutine; nil without one
	position  Position
	known     map[Changed]int64 // numbers of changes that followers have, from the position on; keys have none
}

// join adds a follower that begins with what has changed since a position. Others may be
// given changes again.
func (c *changeFeed) join(tenant string, since Position, set ChangeSet) *Follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Follower{feed: c, tenant: tenant, wake: make(chan struct{}, 1)}
	f.add(set.Changed, !set.reaches(since))
	if set.History != c.position.History { // the others lack what is between the two
		for other := range c.followers {
			other.add(nil, true)
		}
	}
	if c.stop == nil || !set.reaches(c.position) {
		c.position = set.Position
	}
	c.known = make(map[Changed]int64) // the new follower may lack what the others have got
	c.followers[f] = struct{}{}
	if c.stop == nil {
		var ctx context.Context
		ctx, c.stop = context.WithCancel(context.Background())
		go c.run(ctx)
	}
	return f
}

func (c *changeFeed) leave(f *Follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, f)
	if len(c.followers) == 0 && c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// run reads changes until ctx ends. While the store is unavailable it tries again.
func (c *changeFeed) run(ctx context.Context) {
	for {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		since := c.position
		c.mu.Unlock()
		if set, err := c.read(ctx, since); err == nil {
			c.publish(ctx, since, set)
		}
	}
}

func (c *changeFeed) read(ctx context.Context, since Position) (set ChangeSet, err error) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if recover() != nil {
			err = fresh.ErrPanic
		}
	}()
	return c.store.Changes(ctx, since)
}

// publish gives followers what has changed since a position, unless that is no longer the
// current one. Another history of the database changes everything.
func (c *changeFeed) publish(ctx context.Context, since Position, set ChangeSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || c.position != since { // ctx: another goroutine may run already
		return
	}
	all := !set.reaches(since)
	if all {
		clear(c.known)
	}
	byTenant := make(map[string][]Changed)
	for _, changed := range set.Changed {
		key := Changed{Tenant: changed.Tenant, FolderID: changed.FolderID}
		if c.known[key] != changed.Number {
			c.known[key] = changed.Number
			byTenant[changed.Tenant] = append(byTenant[changed.Tenant], changed)
		}
	}
	maps.DeleteFunc(c.known, func(_ Changed, number int64) bool { return number < set.Number }) // not returned again
	c.position = set.Position
	for f := range c.followers {
		if list := byTenant[f.tenant]; all || len(list) > 0 {
			f.add(list, all)
		}
	}
}
