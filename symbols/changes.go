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

// Change is what may have changed in the library of a tenant.
type Change struct {
	ID        string  // from which [Service.Follow] continues
	All       bool    // everything; the other fields are empty
	Folders   bool    // the list of folders
	FolderIDs []int64 // of folders whose contents may have changed; ascending
}

// maxChangedFolders is the length of FolderIDs from which a Change is one of everything.
const maxChangedFolders = 1000

func (c *Change) isEmpty() bool { return !c.All && !c.Folders && len(c.FolderIDs) == 0 }

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

// Follow calls f with what has changed after the Change with an ID, and then with each
// change of any process, within half a second. Changes may be joined, and may name more than
// has changed. The first call may be for an empty Change; it is one of everything if the ID
// is empty, or not one of this database. Follow returns when ctx ends, or with the error of
// f, or with one that matches [ErrUnavailable] if the first read fails.
//
// All calls together read the store five times a second.
func (s *Service) Follow(ctx context.Context, id string, f func(Change) error) error {
	const timeout = 5 * time.Second
	l, ready := s.changes.join(s.tenant)
	defer s.changes.leave(l)
	select {
	case <-ready:
	case <-time.After(timeout):
		return storeError("read changes", context.DeadlineExceeded)
	case <-ctx.Done():
		return ctx.Err()
	}
	change, err := s.changesSince(ctx, id)
	for err == nil {
		if err = f(change); err != nil {
			return err
		}
		select {
		case <-l.wake:
			change = s.changes.take(l)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// changesSince returns what has changed since the Change with an ID.
func (s *Service) changesSince(ctx context.Context, id string) (Change, error) {
	since := parsePosition(id)
	current := s.changes.current()
	if since == current {
		return Change{ID: id}, nil
	}
	if since.History != current.History {
		return Change{ID: current.String(), All: true}, nil
	}
	set, err := s.store.Changes(ctx, since)
	change := Change{All: !set.reaches(since)}
	for _, changed := range set.Changed {
		if changed.Tenant == s.tenant {
			change.add(changed)
		}
	}
	change.ID = set.Position.String()
	return change, storeError("read changes", err)
}

// pollInterval is how often the store is asked for changes while somebody follows them.
const pollInterval = 200 * time.Millisecond

// changeFeed reads the changes for all that follow them. It reads nothing while nobody
// does.
type changeFeed struct {
	store Store // of any tenant

	mu        sync.Mutex
	listeners map[*listener]struct{}
	stop      context.CancelFunc // of the running goroutine; nil without one
	ready     chan struct{}      // closed when there is a position
	position  Position
	known     map[folderOf]int64 // numbers of changes that listeners have, from the position on
}

// folderOf is a folder, or the folder list, of a tenant.
type folderOf struct {
	tenant string
	id     int64
}

// listener is a call of Follow.
type listener struct {
	tenant  string
	wake    chan struct{} // has an element if there are changes
	pending Change        // protected by changeFeed.mu
}

func newChangeFeed(store Store) *changeFeed {
	return &changeFeed{store: store, listeners: make(map[*listener]struct{})}
}

// join adds a listener. It gets all changes after the position that is current when ready
// is closed.
func (c *changeFeed) join(tenant string) (l *listener, ready <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = &listener{tenant: tenant, wake: make(chan struct{}, 1)}
	c.listeners[l] = struct{}{}
	if c.stop == nil {
		var ctx context.Context
		ctx, c.stop = context.WithCancel(context.Background())
		c.ready, c.position, c.known = make(chan struct{}), Position{}, make(map[folderOf]int64)
		go c.run(ctx, c.ready)
	}
	return l, c.ready
}

func (c *changeFeed) leave(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listeners, l)
	if len(c.listeners) == 0 {
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

// take returns what has changed for a listener.
func (c *changeFeed) take(l *listener) Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	change := l.pending
	change.ID = c.position.String()
	l.pending = Change{}
	return change
}

// run reads changes until ctx ends. While the store is unavailable it tries again.
func (c *changeFeed) run(ctx context.Context, ready chan struct{}) {
	for {
		set, err := c.read(ctx)
		c.mu.Lock()
		if ctx.Err() != nil { // another goroutine may run already
			c.mu.Unlock()
			return
		}
		if err == nil {
			c.publish(set)
			if ready != nil {
				close(ready)
				ready = nil
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

// publish gives listeners what has changed. Another history of the database changes
// everything.
func (c *changeFeed) publish(set ChangeSet) {
	byTenant, all := make(map[string][]Changed), false
	switch {
	case c.position == Position{}: // nobody has an earlier one
	case !set.reaches(c.position):
		all = true
		clear(c.known)
	}
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
	for l := range c.listeners {
		if all {
			l.pending = Change{All: true}
		}
		for _, changed := range byTenant[l.tenant] {
			l.pending.add(changed)
		}
		if l.pending.isEmpty() {
			continue
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}
