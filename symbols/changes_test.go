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

// heldStore calls hold before it returns changes.
type heldStore struct {
	symbols.Store
	hold atomic.Pointer[func(since symbols.Position)]
}

func (s *heldStore) Changes(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	set, err := s.Store.Changes(ctx, since)
	if hold := s.hold.Load(); hold != nil {
		(*hold)(since)
	}
	return set, err
}

// Tenant returns s, whose changes are those of all tenants.
func (s *heldStore) Tenant(string) symbols.Store { return s }

// TestFollow_TenantsShareFirstRead begins to follow for many tenants, as after a restart.
func TestFollow_TenantsShareFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &heldStore{Store: memory.New().Symbols()}
		s := newService(t, store, nil)
		var reads atomic.Int64
		proceed := make(chan struct{})
		hold := func(symbols.Position) {
			reads.Add(1)
			<-proceed
		}
		store.hold.Store(&hold)
		for i := range 10 {
			go func() {
				f := must(s.Tenant(fmt.Sprint("tenant ", i)).Follow(t.Context(), ""))(t)
				f.Close()
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
				store := &heldStore{Store: memory.New().Symbols()}
				s := newService(t, store, nil)
				first := must(s.Follow(t.Context(), ""))(t)
				defer first.Close()
				is.True(first.Take().All)

				joining, reading := make(chan struct{}), make(chan struct{})
				hold := func(since symbols.Position) {
					if since == (symbols.Position{}) {
						<-joining
					}
				}
				store.hold.Store(&hold)
				joined := make(chan *symbols.Follower)
				go func() {
					f := must(s.Follow(t.Context(), ""))(t)
					joined <- f
				}()
				synctest.Wait()
				must(s.CreateFolder(t.Context(), "A"))(t)
				time.Sleep(time.Second)
				is.True(first.Take().Folders)
				time.Sleep(time.Second)
				is.Equal(len(first.Changes()), 1) // not taken: the change was there once
				<-first.Changes()
				is.True(!first.Take().Folders)

				if duringRead {
					hold := func(symbols.Position) { <-reading }
					store.hold.Store(&hold)
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

// otherHistoryStore is a store that is replaced by one of another history. Calls that continue
// the first one fail, as while they hang on the server that is lost.
type otherHistoryStore struct {
	symbols.Store
	replaced atomic.Bool
}

func (s *otherHistoryStore) Changes(_ context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	switch {
	case !s.replaced.Load():
		return symbols.ChangeSet{Position: symbols.Position{History: 1, Number: 10}}, nil
	case since.History == 1:
		return symbols.ChangeSet{}, errors.New("connection lost")
	}
	return symbols.ChangeSet{Position: symbols.Position{History: 2, Number: 5}}, nil
}

// TestFollow_JoinAfterFailover has a follower that joins before the others are notified of
// another history.
func TestFollow_JoinAfterFailover(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := &otherHistoryStore{Store: memory.New().Symbols()}
	service := newService(t, store, nil)
	first := must(service.Follow(t.Context(), ""))(t)
	defer first.Close()
	is.True(first.Take().All)
	store.replaced.Store(true)
	second := must(service.Follow(t.Context(), ""))(t)
	defer second.Close()
	is.True(first.Take().All)
}

// twoReadStore reads the position first and then the changes, as package sqlite does. It calls
// between and after.
type twoReadStore struct {
	symbols.Store
	between, after atomic.Pointer[func(ctx context.Context)]
}

func (s *twoReadStore) Changes(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	first, err := s.Store.Changes(ctx, since)
	if f := s.between.Load(); f != nil {
		(*f)(ctx)
	}
	set, _ := s.Store.Changes(ctx, since)
	set.Position = first.Position
	if f := s.after.Load(); f != nil {
		(*f)(ctx)
	}
	return set, err
}

type joining struct{}

// TestFollow_JoinDuringRead has a follower whose first read is within one for all that returns
// a later change, too.
func TestFollow_JoinDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &twoReadStore{Store: memory.New().Symbols()}
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
		between := func(ctx context.Context) {
			if ctx.Value(joining{}) == nil {
				<-poll
			}
		}
		after := func(ctx context.Context) {
			if ctx.Value(joining{}) != nil {
				<-join
			}
		}
		store.between.Store(&between)
		store.after.Store(&after)
		time.Sleep(300 * time.Millisecond) // the read for all has the position
		change(0)
		joined := make(chan *symbols.Follower)
		go func() {
			f := must(s.Follow(context.WithValue(t.Context(), joining{}, true), id))(t)
			joined <- f
		}()
		synctest.Wait()
		change(1)
		store.between.Store(nil)
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
