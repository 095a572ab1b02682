package postgres_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/symbols"
)

// load is some clients that read and write all the while, and remember what
// they were told.
type load struct {
	*client
	folder, record int64 // ids of a folder, and of the clients' own key
	reads, writes  tally

	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	stored map[string]bool // symbols by name: true, or false if that is in doubt
}

// tally counts requests that were carried out, and those that were not.
type tally struct{ good, bad atomic.Int64 }

func (t *tally) add(ok bool) {
	if ok {
		t.good.Add(1)
	} else {
		t.bad.Add(1)
	}
}

func startLoad(t *testing.T, addresses ...string) *load {
	t.Helper()
	l := &load{client: newClient(t, addresses...), stored: make(map[string]bool)}
	issued, _ := l.send("POST", "/admin/api-keys", `{"name":"0"}`)
	l.key, l.record = issued.APIKey, issued.Key.ID
	folder, ok := l.send("POST", "/symbol/folders", `{"name":"folder"}`)
	if !ok {
		t.Fatal("the service does not work")
	}
	l.folder = folder.ID

	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for i, work := range []func(client int) (step func(n int)){l.reading, l.reading, l.writing, l.writing, l.editing} {
		l.running.Go(func() {
			step := work(i)
			for n := 1; ctx.Err() == nil; n++ {
				step(n)
				time.Sleep(3 * time.Millisecond)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

// end lets the requests under way finish.
func (l *load) end() {
	l.stop()
	l.running.Wait()
}

// reading reads.
func (l *load) reading(int) func(int) {
	paths := []string{fmt.Sprint("/symbol/folders/", l.folder), fmt.Sprint("/admin/api-keys/", l.record)}
	return func(n int) {
		_, ok := l.send("GET", paths[n%len(paths)], "")
		l.reads.add(ok)
	}
}

// writing adds symbols.
func (l *load) writing(client int) func(int) {
	path := fmt.Sprintf("/symbol/folders/%d/symbols", l.folder)
	return func(n int) {
		name := fmt.Sprint(client, " ", n)
		_, ok := l.send("POST", path, fmt.Sprintf(`{"name":%q,"type":"image/svg+xml","data":"<svg/>"}`, name))
		l.writes.add(ok)
		l.mu.Lock()
		l.stored[name] = ok
		l.mu.Unlock()
	}
}

// editing counts in the name of the key, and reads it: it is the last number
// that was acknowledged, or one that was tried since.
func (l *load) editing(int) func(int) {
	path := fmt.Sprint("/admin/api-keys/", l.record)
	acknowledged := 0
	return func(n int) {
		_, ok := l.send("PATCH", path, fmt.Sprintf(`{"name":"%d"}`, n))
		l.writes.add(ok)
		if ok {
			acknowledged = n
		}
		got, ok := l.send("GET", path, "")
		l.reads.add(ok)
		if !ok {
			return
		}
		if is, err := strconv.Atoi(got.Name); err != nil || is < acknowledged || is > n {
			l.t.Errorf("the name is %s, though %d is acknowledged and %d was tried last", got.Name, acknowledged, n)
		} else {
			acknowledged = is
		}
	}
}

// check ends the load and compares the storage with what the clients were
// told: nothing that was acknowledged is lost, and nothing is there twice.
func (l *load) check(store symbols.Store) {
	l.t.Helper()
	l.end()
	found := make(map[string]int)
	for after := int64(0); ; {
		page, err := store.ListSymbols(l.t.Context(), l.folder, after, symbols.DefaultPageSize)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, symbol := range page.Symbols {
			found[symbol.Name]++
			after = symbol.ID
		}
		if !page.More {
			break
		}
	}
	inDoubt, kept := 0, 0
	for name, acknowledged := range l.stored {
		n := found[name]
		delete(found, name)
		if n > 1 || acknowledged && n == 0 {
			l.t.Errorf("symbol %s is there %d times, acknowledged: %v", name, n, acknowledged)
		}
		if !acknowledged {
			inDoubt++
			kept += n
		}
	}
	for name := range found {
		l.t.Errorf("symbol %s was never sent", name)
	}
	l.t.Logf("reads %d and %d unavailable, writes %d and %d unavailable; of %d symbols in doubt %d are stored",
		l.reads.good.Load(), l.reads.bad.Load(), l.writes.good.Load(), l.writes.bad.Load(), inDoubt, kept)
}
