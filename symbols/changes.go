package symbols

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

// Change is what may have changed in the library of a tenant: nothing if it has none of
// both.
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

// parsePosition returns the position of an ID, or one of no history.
func parsePosition(id string) Position {
	history, number, _ := strings.Cut(id, ".")
	h, err := strconv.ParseInt(history, 36, 64)
	n, err2 := strconv.ParseInt(number, 36, 64)
	if p := (Position{h, n}); err == nil && err2 == nil && p.String() == id {
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
// All followers together read the store five times a second.
func (s *Service) Follow(ctx context.Context, id string) (*Follower, error) {
	f, ready := s.changes.join(s.tenant)
	err := s.begin(ctx, f, ready, parsePosition(id))
	if err != nil {
		f.Close()
		return nil, storeError("read changes", err)
	}
	return f, nil
}

// begin adds what has changed since a position.
func (s *Service) begin(ctx context.Context, f *Follower, ready <-chan struct{}, since Position) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	current := f.feed.current()
	if (current == Position{}) {
		return f.feed.failed()
	}
	set := ChangeSet{Position: current}
	if since != current && since.History == current.History {
		var err error
		if set, err = s.store.Changes(ctx, since); err != nil {
			return err
		}
	}
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	f.add(set.Changed, !set.reaches(since))
	f.wakeUp()
	return nil
}

// Changes returns a channel that has an element when Take has something.
func (f *Follower) Changes() <-chan struct{} { return f.wake }

// Take returns what has changed since the last call.
func (f *Follower) Take() Change {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	change := f.pending
	change.ID = f.feed.position.String()
	f.pending = Change{}
	return change
}

// Close ends the follower.
func (f *Follower) Close() { f.feed.leave(f) }

func (f *Follower) add(list []Changed, all bool) {
	if all {
		f.pending = Change{All: true}
	}
	for _, changed := range list {
		if changed.Tenant == f.tenant {
			f.pending.add(changed)
		}
	}
}

func (f *Follower) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// pollInterval is how often the store is asked for changes while somebody follows them.
const pollInterval = 200 * time.Millisecond

// changeFeed reads the changes for all that follow them. It reads nothing while nobody
// does.
type changeFeed struct {
	store Store // of any tenant

	mu        sync.Mutex
	followers map[*Follower]struct{}
	stop      context.CancelFunc // of the running goroutine; nil without one
	ready     chan struct{}      // closed when there is a position, or an err instead
	err       error              // of the last read
	position  Position
	known     map[folderOf]int64 // numbers of changes that followers have, from the position on
}

// folderOf is a folder, or the folder list, of a tenant.
type folderOf struct {
	tenant string
	id     int64
}

func newChangeFeed(store Store) *changeFeed {
	return &changeFeed{store: store, followers: make(map[*Follower]struct{})}
}

// join adds a follower. It gets all changes after the position that is current when ready
// is closed.
func (c *changeFeed) join(tenant string) (f *Follower, ready <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f = &Follower{feed: c, tenant: tenant, wake: make(chan struct{}, 1)}
	c.followers[f] = struct{}{}
	if c.stop == nil {
		var ctx context.Context
		ctx, c.stop = context.WithCancel(context.Background())
		c.ready, c.position, c.known = make(chan struct{}), Position{}, make(map[folderOf]int64)
		go c.run(ctx)
	}
	return f, c.ready
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

// current returns the position of the last read.
func (c *changeFeed) current() Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position
}

// failed returns the error of the last read.
func (c *changeFeed) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// run reads changes until ctx ends. While the store is unavailable it tries again.
func (c *changeFeed) run(ctx context.Context) {
	for {
		set, err := c.read(ctx)
		c.mu.Lock()
		if ctx.Err() != nil { // another goroutine may run already
			c.mu.Unlock()
			return
		}
		begun := c.position != Position{}
		if c.err = err; err == nil {
			c.publish(set)
		}
		if !begun {
			close(c.ready)
			if err != nil {
				c.ready = make(chan struct{})
			}
		}
		c.mu.Unlock()
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return
		}
	}
}

func (c *changeFeed) read(ctx context.Context) (set ChangeSet, err error) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return c.store.Changes(ctx, c.current())
}

// publish gives followers what has changed. Another history of the database changes
// everything.
func (c *changeFeed) publish(set ChangeSet) {
	begins := c.position == Position{} // nobody has an earlier one
	all := !begins && !set.reaches(c.position)
	if all {
		clear(c.known)
	}
	byTenant := make(map[string][]Changed)
	for _, changed := range set.Changed {
		key := folderOf{changed.Tenant, changed.FolderID}
		if c.known[key] != changed.Number {
			c.known[key] = changed.Number
			byTenant[changed.Tenant] = append(byTenant[changed.Tenant], changed)
		}
	}
	for key, number := range c.known {
		if number < set.Number { // is not returned again
			delete(c.known, key)
		}
	}
	c.position = set.Position
	for f := range c.followers {
		f.add(byTenant[f.tenant], all)
		if f.pending.All || f.pending.Folders || len(f.pending.FolderIDs) > 0 {
			f.wakeUp()
		}
	}
}
