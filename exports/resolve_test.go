package exports_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

func newResolving(upstream *fakeUpstream, resolve func(context.Context, exports.ResolveRequest) (exports.Resolution, error)) *exports.Service {
	return newService(upstream, exports.Options{OpenTimeout: 20 * time.Second, Resolve: resolve})
}

func resolve(ctx context.Context, s *exports.Service, source string) exports.BatchItem {
	items := exports.BatchOf(source)
	item, err := s.FindItem(ctx, items[0])
	items[0] = item
	s.Resolve(ctx, items)
	items[0].Err = cmp.Or(err, items[0].Err)
	return items[0]
}

func TestResolve_IsUsedLikeARegisteredExport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream := newFakeUpstream()
	upstream.serve("https://x.example/made", []byte("made"))
	var calls atomic.Int64
	s := newResolving(upstream, func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
		calls.Add(1)
		if !strings.HasPrefix(r.Source, "known") {
			return exports.Resolution{}, fmt.Errorf("no: %w", exports.ErrNotFound)
		}
		return exports.Resolution{ExportedURL: "https://x.example/made", FileName: "a.pdf", Register: r.Source == "known-kept"}, nil
	})
	archive, skipped, err := downloadBatch(t, s, []string{" known ", "unknown", "known", "known-kept"})
	is.NoErr(err)
	is.Equal(withoutErrors(skipped), []exports.Skipped{{SourceURL: "unknown", Reason: "not registered"}})
	names, contents := readZip(t, archive)
	is.Equal(names, []string{"a.pdf", "a-1.pdf", "a-2.pdf", "manifest.json"})
	is.Equal(contents["a-2.pdf"], "made")
	is.Equal(calls.Load(), int64(3)) // once for each source

	_, err = s.Find(t.Context(), "known")
	is.Equal(err, exports.ErrNotFound) // not kept
	is.Equal(must(s.Find(t.Context(), "known-kept"))(t).FileName, "a.pdf")
	is.NoErr(resolve(t.Context(), s, "known-kept").Err)
	is.Equal(calls.Load(), int64(3))
	is.Equal(resolve(t.Context(), s, "unknown").Err, exports.ErrNotFound)
}

func TestResolve_Failures(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		s := newResolving(newFakeUpstream(), func(ctx context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			switch r.Source {
			case "slow":
				<-ctx.Done()
				return exports.Resolution{}, ctx.Err()
			case "stuck":
				time.Sleep(time.Minute) // in spite of ctx
			case "forbidden":
				return exports.Resolution{ExportedURL: "https://forbidden.example/"}, nil
			case "malformed":
				return exports.Resolution{ExportedURL: "x", Register: true}, nil
			case "panic":
				panic("of the application")
			}
			return exports.Resolution{}, cmp.Or(map[string]error{
				"soon":        &exports.NotReadyError{RetryAfter: 30 * time.Second},
				"at once":     &exports.NotReadyError{RetryAfter: time.Millisecond},
				"later":       &exports.NotReadyError{RetryAfter: 99 * time.Hour},
				"some time":   fmt.Errorf("queued: %w", &exports.NotReadyError{}),
				"invalid":     fmt.Errorf("of another service: %w", exports.ErrInvalid),
				"unavailable": fmt.Errorf("of another service: %w", exports.ErrUnavailable),
				"broken":      errors.New("broken"),
				"gone":        fmt.Errorf("its drawing was deleted: %w", exports.ErrGone),
			}[r.Source], exports.ErrNotFound)
		})
		find := func(source string) error { return resolve(t.Context(), s, source).Err }
		for source, after := range map[string]time.Duration{"soon": 30 * time.Second, "at once": time.Second, "later": 24 * time.Hour, "some time": 5 * time.Second} {
			notReady, ok := errors.AsType[*exports.NotReadyError](find(source))
			is.True(ok)
			is.Equal(notReady.RetryAfter, after)
		}
		is.True(errors.Is(find("slow"), exports.ErrTimeout))
		is.True(errors.Is(find("stuck"), exports.ErrTimeout))
		time.Sleep(time.Minute) // until the call has ended
		for _, source := range []string{"forbidden", "malformed", "panic", "broken", "invalid", "unavailable"} {
			err := find(source)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(!errors.Is(err, exports.ErrInvalid) && !errors.Is(err, exports.ErrUnavailable))
		}

		is.True(errors.Is(find("gone"), exports.ErrGone)) // a link omits it

		batch := func(sources ...string) error {
			_, err := openBatch(t, s, sources)
			is.True(err != nil)
			return err
		}
		is.True(errors.Is(batch("nothing", ""), exports.ErrNotFound))
		is.True(errors.Is(batch("slow", "nothing"), exports.ErrTimeout))
		is.True(errors.Is(batch("soon", "broken", "slow"), exports.ErrFailed))
		failed, ok := errors.AsType[*exports.BatchError](batch("soon", "slow", "later", "soon"))
		is.True(ok)
		is.Equal(failed.Skipped[0].Reason, "file is not ready")
		notReady, ok := errors.AsType[*exports.NotReadyError](failed)
		is.True(ok)
		is.Equal(notReady.RetryAfter, 24*time.Hour) // the largest
	})
}

func TestResolve_SharesACallThatOutlivesARequest(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		var calls atomic.Int64
		s := newResolving(newFakeUpstream(), func(ctx context.Context, _ exports.ResolveRequest) (exports.Resolution, error) {
			calls.Add(1)
			time.Sleep(10 * time.Second)
			return exports.Resolution{ExportedURL: "https://x.example/"}, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error)
		for i := range 3 {
			go func() {
				if i > 0 {
					time.Sleep(time.Second)
				}
				results <- resolve([]context.Context{ctx, t.Context(), t.Context()}[i], s, "source").Err
			}()
		}
		time.Sleep(2 * time.Second)
		cancel()
		is.NoErr(<-results) // the first one, too: it counts as a request until its call ends
		is.NoErr(<-results)
		is.NoErr(<-results)
		is.Equal(calls.Load(), int64(1))
	})
}

// numbers returns the sources "0", "1", ...
func numbers(count int) (sources []string) {
	for i := range count {
		sources = append(sources, fmt.Sprint(i))
	}
	return sources
}

func TestResolve_BatchResolvesSixteenAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		var running, most atomic.Int64
		s := newResolving(newFakeUpstream(), func(context.Context, exports.ResolveRequest) (exports.Resolution, error) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return exports.Resolution{ExportedURL: "https://x.example/"}, nil
		})
		sources := numbers(160)
		start := time.Now()
		items := must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
		s.Resolve(t.Context(), items)
		is.Equal(most.Load(), int64(16))
		is.Equal(time.Since(start), 10*time.Second)

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // a client that leaves
		defer cancel()
		s.Resolve(ctx, must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t))
		is.Equal(most.Load(), int64(16))
		is.Equal(running.Load(), int64(0))
		is.Equal(time.Since(start), 12*time.Second)
	})
}

func TestResolve_StopsAfterRepeatedTimeouts(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		s := newResolving(newFakeUpstream(), func(ctx context.Context, _ exports.ResolveRequest) (exports.Resolution, error) {
			<-ctx.Done()
			return exports.Resolution{}, ctx.Err()
		})
		start := time.Now()
		items := must(s.FindBatch(t.Context(), exports.BatchOf(numbers(200)...)))(t)
		s.Resolve(t.Context(), items)
		is.True(time.Since(start) <= time.Minute) // not 200 timeouts of 20 s, 16 at a time
		is.True(errors.Is(items[199].Err, exports.ErrTimeout))
	})
}

// withoutQuery is a SourceKey for presigned sources.
func withoutQuery(source string) string {
	path, _, _ := strings.Cut(source, "?")
	return path
}

func TestOptions_SourceKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream := newFakeUpstream()
	upstream.serve("https://x.example/a", []byte("a"))
	s := newService(upstream, exports.Options{SourceKey: withoutQuery})
	export, created, err := s.Register(t.Context(), exports.Registration{SourceURL: "https://cad.example/a?sig=1", ExportedURL: "https://x.example/a"})
	is.NoErr(err)
	is.True(created)
	is.Equal(export.SourceURL, "https://cad.example/a")
	_, created, err = s.Register(t.Context(), exports.Registration{SourceURL: "https://cad.example/a?sig=2", ExportedURL: "https://x.example/a"})
	is.NoErr(err)
	is.True(!created)
	export, _, err = s.Register(t.Context(), exports.Registration{SourceURL: "plan ?sig=1", ExportedURL: "https://x.example/a"})
	is.NoErr(err)
	is.Equal(export.SourceURL, "plan") // the stores rely on it
	_, _, err = s.Register(t.Context(), exports.Registration{SourceURL: "?sig=2", ExportedURL: "https://x.example/a"})
	is.True(errors.Is(err, exports.ErrInvalid))
	_, skipped, err := downloadBatch(t, s, []string{"https://cad.example/a?sig=3", " https://cad.example/b?sig=4 ", "?x"})
	is.NoErr(err)
	is.Equal(withoutErrors(skipped), []exports.Skipped{ // as given
		{SourceURL: " https://cad.example/b?sig=4 ", Reason: "not registered"},
		{SourceURL: "?x", Reason: "sourceFileUrl must not be empty"},
	})
}

func TestBatch_PutsEntriesIntoFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream := newFakeUpstream()
	upstream.serve("https://x.example/plan.pdf", []byte("plan"))
	s := newService(upstream, exports.Options{})
	source := register(t, s, "https://x.example/plan.pdf")[0]
	var items []exports.BatchItem
	for _, name := range [][2]string{{"", ""}, {"A/B", ""}, {"a/b", ""}, {"./x//../y/", "cut.dwg"}, {"plan.pdf", "in"}, {"plan.pdf", "in"}, {"", "y/z"}, {"", " "},
		{"manifest.json", "1"}, {"sub", "manifest.json"}, {"a", "b"}} {
		items = append(items, exports.BatchItem{SourceURL: source, Path: name[0], FileName: name[1]})
	}
	items = must(s.FindBatch(t.Context(), items))(t)
	want := []string{"plan.pdf", "A/B/plan.pdf", "a/b/plan-1.pdf", "x/y/cut.dwg", "plan-1.pdf/in", "plan-1.pdf/in-1", "y_z", "plan-2.pdf",
		"manifest-1.json/1", "sub/manifest.json", "a/b-1"}
	batch := must(s.OpenBatch(t.Context(), items))(t)
	defer batch.Close()
	var out strings.Builder
	is.NoErr(batch.WriteZip(&out, nil))
	names, _ := readZip(t, []byte(out.String()))
	is.Equal(names, want)
	link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items}))(t)
	is.True(!link.Resumable())
	is.Equal(len(link.NotResumable), len(items))
	is.Equal(link.NotResumable[0].Reason, "the size of the file is unknown")
	_, body, err := readCurrent(t.Context(), link)
	is.NoErr(err)
	names, _ = readZip(t, body)
	is.Equal(names, want)
}

// newSigned returns a service that resolves sources with a good signature, which is not
// part of their key.
func newSigned(delay time.Duration) *exports.Service {
	return newService(newFakeUpstream(), exports.Options{
		OpenTimeout: 20 * time.Second,
		SourceKey:   withoutQuery,
		Resolve: func(ctx context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			time.Sleep(delay)
			if !strings.HasSuffix(r.Source, "?signature=good") {
				return exports.Resolution{}, exports.ErrNotFound
			}
			return exports.Resolution{ExportedURL: "https://x.example/made"}, nil
		},
	})
}

func TestResolve_SharesNoCallOfAnotherSource(t *testing.T) {
	is := is.New(t)
	s := newSigned(0)
	const source = "https://cad.example/7?signature="
	items := must(s.FindBatch(t.Context(), exports.BatchOf(source+"bad", source+"good")))(t)
	s.Resolve(t.Context(), items)
	is.Equal(items[0].Err, exports.ErrNotFound)
	is.NoErr(items[1].Err)
	synctest.Test(t, func(t *testing.T) {
		s := newSigned(time.Second)
		good := make(chan error)
		go func() { good <- resolve(t.Context(), s, source+"good").Err }()
		time.Sleep(100 * time.Millisecond)
		is.Equal(resolve(t.Context(), s, source+"bad").Err, exports.ErrNotFound)
		is.NoErr(<-good)
	})
}

// TestResolve_KeepsLaterRegistration registers an export, with another Service, just
// before that of a resolution is stored.
func TestResolve_KeepsLaterRegistration(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := &hookedPut{Store: memory.New().Exports()}
	options := exports.Options{
		Openers: []exports.Opener{newFakeUpstream()},
		Resolve: func(context.Context, exports.ResolveRequest) (exports.Resolution, error) {
			return exports.Resolution{ExportedURL: "https://x.example/old", Register: true}, nil
		},
	}
	s := must(exports.NewService(store, &options))(t)
	other := must(exports.NewService(store.Store, &options))(t)
	store.before = func() {
		_, _, err := other.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://x.example/new", FileName: new("new.pdf")})
		is.NoErr(err)
	}
	later := *resolve(t.Context(), s, "s").Export
	is.Equal(later.ExportedURL, "https://x.example/new")
	is.Equal(later.FileName, "new.pdf")
	is.Equal(later, must(s.Find(t.Context(), "s"))(t))
}

// hookedPut calls a function before Put.
type hookedPut struct {
	exports.Store
	before func()
}

func (s *hookedPut) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (exports.Export, bool, error) {
	s.before()
	return s.Store.Put(ctx, export, rule)
}
