package symbols_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// hookedStore calls a function in place of Changes, unless it is nil.
type hookedStore struct {
	symbols.Store
	hook atomic.Pointer[changesFunc]
}

type changesFunc func(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error)

func (s *hookedStore) Changes(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	if hook := s.hook.Load(); hook != nil {
		return (*hook)(ctx, since)
	}
	return s.Store.Changes(ctx, since)
}

// hold makes Changes call f before it returns.
func (s *hookedStore) hold(f func(since symbols.Position)) {
	s.hook.Store(new(changesFunc(func(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
		set, err := s.Store.Changes(ctx, since)
		f(since)
		return set, err
	})))
}

// Tenant returns s, whose changes are those of all tenants.
func (s *hookedStore) Tenant(string) symbols.Store { return s }

// TestFollow_TenantsShareFirstRead begins to follow for many tenants, as after a restart.
func TestFollow_TenantsShareFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &hookedStore{Store: memory.New().Symbols()}
		s := newService(t, store, nil)
		var reads atomic.Int64
		proceed := make(chan struct{})
		store.hold(func(symbols.Position) {
			reads.Add(1)
			<-proceed
		})
		for i := range 10 {
			go func() {
				must(s.Tenant(fmt.Sprint("tenant ", i)).Follow(t.Context(), ""))(t).Close()
			}()
		}
		synctest.Wait()
		is.Equal(reads.Load(), int64(1)) // the others wait for it
		close(proceed)
		synctest.Wait()
	})
}

// TestFollow_MissesNothingAfterSlowRead has a follower whose first read takes so long that
// the others have later changes, also while the next read for all is running.
func TestFollow_MissesNothingAfterSlowRead(t *testing.T) {
	for _, duringRead := range []bool{false, true} {
		t.Run(fmt.Sprint("duringRead=", duringRead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				store := &hookedStore{Store: memory.New().Symbols()}
				s := newService(t, store, nil)
				first := must(s.Follow(t.Context(), ""))(t)
				defer first.Close()
				is.True(first.Take().All)

				joining, reading := make(chan struct{}), make(chan struct{})
				store.hold(func(since symbols.Position) {
					if since == (symbols.Position{}) {
						<-joining
					}
				})
				joined := make(chan *symbols.Follower)
				go func() { joined <- must(s.Follow(t.Context(), ""))(t) }()
				synctest.Wait()
				must(s.CreateFolder(t.Context(), "A"))(t)
				time.Sleep(time.Second)
				is.True(first.Take().Folders)
				time.Sleep(time.Second)
				is.Equal(len(first.Changes()), 1) // not taken: the change was there once
				<-first.Changes()
				is.True(!first.Take().Folders)

				if duringRead {
					store.hold(func(symbols.Position) { <-reading })
					time.Sleep(time.Second)
				}
				time.Sleep(50 * time.Millisecond) // not when the feed reads, which would add to the first Take
				close(joining)
				second := <-joined
				defer second.Close()
				is.True(second.Take().All)
				close(reading)
				time.Sleep(time.Second)
				is.True(second.Take().Folders)
			})
		})
	}
}

// TestFollow_JoinAfterFailover has a follower that joins before the others are notified of
// another history: calls that continue the first one fail, as while they hang on the server that
// is lost.
func TestFollow_JoinAfterFailover(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := &hookedStore{Store: memory.New().Symbols()}
	store.hook.Store(new(changesFunc(func(context.Context, symbols.Position) (symbols.ChangeSet, error) {
		return symbols.ChangeSet{Position: symbols.Position{History: 1, Number: 10}}, nil
	})))
	service := newService(t, store, nil)
	first := must(service.Follow(t.Context(), ""))(t)
	defer first.Close()
	is.True(first.Take().All)
	store.hook.Store(new(changesFunc(func(_ context.Context, since symbols.Position) (symbols.ChangeSet, error) {
		if since.History == 1 {
			return symbols.ChangeSet{}, errors.New("connection lost")
		}
		return symbols.ChangeSet{Position: symbols.Position{History: 2, Number: 5}}, nil
	})))
	second := must(service.Follow(t.Context(), ""))(t)
	defer second.Close()
	is.True(first.Take().All)
}

type joining struct{}

// TestFollow_JoinDuringRead has a follower whose first read is within one for all that returns
// a later change, too. The store reads the position first and then the changes, as package sqlite
// does.
func TestFollow_JoinDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &hookedStore{Store: memory.New().Symbols()}
		s := newService(t, store, nil)
		var folders [2]symbols.Folder
		for i, name := range []string{"A", "B"} {
			folders[i] = must(s.CreateFolder(t.Context(), name))(t)
		}
		change := func(folder int) {
			_, err := s.CreateSymbol(t.Context(), folders[folder].ID, symbols.NewSymbol{Name: "n", Type: "text/plain", Data: "x"})
			is.NoErr(err)
		}
		first := must(s.Follow(t.Context(), ""))(t)
		defer first.Close()
		id := first.Take().ID

		poll, join := make(chan struct{}), make(chan struct{})
		store.hook.Store(new(changesFunc(func(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
			joins := ctx.Value(joining{}) != nil
			first, err := store.Store.Changes(ctx, since)
			if !joins {
				<-poll // closed for later reads
			}
			set, _ := store.Store.Changes(ctx, since)
			set.Position = first.Position
			if joins {
				<-join
			}
			return set, err
		})))
		time.Sleep(300 * time.Millisecond) // the read for all has the position
		change(0)
		joined := make(chan *symbols.Follower)
		go func() {
			f := must(s.Follow(context.WithValue(t.Context(), joining{}, true), id))(t)
			joined <- f
		}()
		synctest.Wait()
		change(1)
		close(poll)
		synctest.Wait()
		is.Equal(first.Take().FolderIDs, []int64{folders[0].ID, folders[1].ID})
		close(join)
		second := <-joined
		defer second.Close()
		time.Sleep(time.Second)
		is.Equal(second.Take().FolderIDs, []int64{folders[0].ID, folders[1].ID})
	})
}

// TestFollow_Again has changes of another tenant between two followers, and then a store that
// panics.
func TestFollow_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := memory.New().Symbols()
		hooked := &hookedStore{Store: store}
		s := newService(t, hooked, nil)
		first := must(s.Follow(t.Context(), ""))(t)
		id := first.Take().ID
		first.Close()
		must(newService(t, store.Tenant("b"), nil).CreateFolder(t.Context(), "B"))(t)
		second := must(s.Follow(t.Context(), id))(t)
		defer second.Close()
		is.Equal(len(second.Take().FolderIDs), 0)

		hooked.hold(func(symbols.Position) { panic("a bug") })
		time.Sleep(time.Second)
		hooked.hook.Store(nil)
		folder := must(s.CreateFolder(t.Context(), "A"))(t)
		time.Sleep(time.Second)
		is.Equal(second.Take().FolderIDs, []int64{folder.ID})
	})
}

// TestFollow_OthersComeAndGo has changes just before another follower begins, and after it has
// ended, then more than a Change names, and another history of the database.
func TestFollow_OthersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &hookedStore{Store: memory.New().Symbols()}
		s := newService(t, store, nil)
		follower := must(s.Follow(t.Context(), ""))(t)
		defer follower.Close()
		follower.Take()
		folder := must(s.CreateFolder(t.Context(), "A"))(t)
		other := must(s.Follow(t.Context(), ""))(t)
		time.Sleep(time.Second)
		is.Equal(follower.Take().FolderIDs, []int64{folder.ID})
		other.Close()
		for i := range 1002 {
			must(s.CreateFolder(t.Context(), fmt.Sprint(i)))(t)
		}
		time.Sleep(time.Second)
		change := follower.Take()
		is.True(change.All && !change.Folders && len(change.FolderIDs) == 0)
		store.hook.Store(new(changesFunc(func(context.Context, symbols.Position) (symbols.ChangeSet, error) {
			return symbols.ChangeSet{Position: symbols.Position{History: 1}}, nil
		})))
		time.Sleep(time.Second)
		is.True(follower.Take().All)
	})
}
