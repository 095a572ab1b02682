package exports_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// fakeObjectStore is a Presigner of the scheme store.
type fakeObjectStore struct {
	*fakeUpstream
	err error // of PublicURL
}

func (f *fakeObjectStore) Serves(u *url.URL) bool {
	return u.Scheme == "store" || u.Host == "signed.example"
}

func (f *fakeObjectStore) PublicURL(ctx context.Context, u *url.URL, fileName string) (string, error) {
	if f.err == context.DeadlineExceeded {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if u.Path == "/none" {
		return "", nil
	}
	return "https://" + u.Host + u.Path + "?signed" + fileName, f.err
}

func TestService_PublicURL(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		store := &fakeObjectStore{fakeUpstream: newFakeUpstream()}
		s := must(exports.NewService(memory.New().Exports(), &exports.Options{
			Openers: []exports.Opener{store, newFakeUpstream()}, OpenTimeout: 10 * time.Millisecond,
		}))(t)
		sources := register(t, s, "store://files.example/a", "https://x.example/b")
		items := must(s.FindBatch(t.Context(), exports.BatchOf(append(sources, "unknown")...)))(t)

		public := must(s.PublicURL(t.Context(), items[0], nil))(t)
		is.Equal(public, "https://files.example/a?signed")
		put(t, s, "web", "https://signed.example/a")
		is.Equal(must(s.PublicURL(t.Context(), resolve(t.Context(), s, "web"), nil))(t), "https://signed.example/a?signed")
		put(t, s, "none", "store://files.example/none")
		_, err := s.PublicURL(t.Context(), resolve(t.Context(), s, "none"), nil)
		is.True(errors.Is(err, exports.ErrFailed))
		named := items[0]
		named.FileName = "b:c"
		is.Equal(must(s.PublicURL(t.Context(), named, nil))(t), "https://files.example/a?signedb_c")
		public = must(s.PublicURL(t.Context(), items[1], nil))(t)
		is.Equal(public, "https://x.example/b")
		urls, skipped, err := s.PublicURLs(t.Context(), items, nil)
		is.NoErr(err)
		is.Equal(urls, []string{"https://files.example/a?signed", "https://x.example/b"})
		is.Equal(skipped, []exports.Skipped{{SourceURL: "unknown", Reason: "not registered", Err: exports.ErrNotFound}})

		for _, c := range []struct{ err, want error }{
			{errors.New("no credentials"), exports.ErrFailed},
			{context.DeadlineExceeded, exports.ErrTimeout},
		} {
			store.err = c.err
			_, err = s.PublicURL(t.Context(), items[0], nil)
			is.True(errors.Is(err, c.want))
			urls, skipped, err = s.PublicURLs(t.Context(), items, nil)
			is.NoErr(err)
			is.Equal(urls, []string{"https://x.example/b"})
			is.True(errors.Is(skipped[0].Err, c.want))
			_, _, err = s.PublicURLs(t.Context(), items[:1], nil)
			batch, ok := errors.AsType[*exports.BatchError](err)
			is.True(ok)
			is.True(errors.Is(batch, c.want))
			is.Equal(len(batch.Skipped), 1)
		}
	})
}

// privateOrigin is an origin whose files clients cannot download.
type privateOrigin struct{ *fakeOrigin }

func (privateOrigin) IsPrivate(u *url.URL) bool { return u.Host != "public.example" }

// newPrivate returns an origin with the private file https://files.example/7, and a Service
// over it.
func newPrivate(options exports.Options) (privateOrigin, *exports.Service) {
	origin := privateOrigin{newFakeOrigin()}
	origin.set("https://files.example/7", newFile(100, 1))
	return origin, newService(origin, options)
}

// share returns the shared link to the file of a source.
func share(t *testing.T, s *exports.Service, source string) *exports.Link {
	t.Helper()
	return must(s.ShareLink(t.Context(), resolve(t.Context(), s, source), exports.Digest{}, ""))(t)
}

func TestService_PublicURLOfPrivateFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := newLinkTest(t, fakeFile{size: 100, validator: "1"}, fakeFile{size: 100, validator: "1"}, fakeFile{err: exports.ErrGone})
	now := time.Now()
	s := must(exports.NewService(l.store, &exports.Options{
		Openers: []exports.Opener{privateOrigin{l.origin}}, LinkServed: 2, Now: func() time.Time { return now },
	}))(t)
	items := must(s.FindBatch(t.Context(), exports.BatchOf(l.sources...)))(t)
	owned := func(owner byte) exports.PrivateURL {
		return func(ctx context.Context, item exports.BatchItem) (string, error) {
			link, err := s.ShareLink(ctx, item, exports.Digest{owner}, "client")
			if err != nil {
				return "", err
			}
			return link.Token, nil
		}
	}
	url := func(item int, owner byte) string {
		return must(s.PublicURL(t.Context(), items[item], owned(owner)))(t)
	}
	first := url(0, 1)
	is.Equal(url(0, 1), first)
	is.True(url(0, 2) != first) // another key
	is.True(url(1, 1) != first) // another file
	named := items[0]
	named.FileName = "b:c"
	renamed := must(s.PublicURL(t.Context(), named, owned(1)))(t)
	is.True(renamed != first)
	is.Equal(l.find(s, renamed).FileName, "b_c")
	urls, skipped, err := s.PublicURLs(t.Context(), items, owned(1))
	is.NoErr(err)
	is.Equal(urls, []string{first, url(1, 1)})
	is.Equal(len(skipped), 1)
	is.True(errors.Is(skipped[0].Err, exports.ErrGone))

	is.Equal(must(s.FindLink(t.Context(), first))(t).Owner, exports.Digest{1})
	for range 2 {
		l.readAll(l.find(s, first))
	}
	is.NoErr(s.Flush(t.Context()))
	second := url(0, 1)
	is.True(second != first) // it has been used up
	now = now.Add(12*time.Hour - time.Millisecond)
	is.Equal(url(0, 1), second)
	now = now.Add(time.Millisecond)
	is.True(url(0, 1) != second)

	given := url(1, 1)
	is.NoErr(s.AssignTenant(t.Context(), "other"))
	put(t, s, l.sources[1], fileURL(1))
	is.True(url(1, 1) != given) // which is now a link of the other tenant

	// Without links there is no URL.
	openers := []exports.Opener{privateOrigin{l.origin}}
	s = must(exports.NewService(struct{ exports.Store }{l.store}, &exports.Options{Openers: openers}))(t)
	_, err = s.PublicURL(t.Context(), items[0], owned(1))
	is.True(errors.Is(err, exports.ErrFailed))
}

// forgetfulStore finds no links. It wraps the sentinel.
type forgetfulStore struct{ linkStore }

func (forgetfulStore) FindLink(context.Context, exports.Digest, bool) (exports.StoredLink, error) {
	return exports.StoredLink{}, fmt.Errorf("store: %w", exports.ErrLinkNotFound)
}

func TestShareLink_ReplacesADeletedLink(t *testing.T) {
	origin, _ := newPrivate(exports.Options{})
	store := forgetfulStore{memory.New().Exports().(linkStore)}
	s := must(exports.NewService(store, &exports.Options{Openers: []exports.Opener{origin}}))(t)
	put(t, s, "source", "https://files.example/7")
	for range 2 {
		is.New(t).True(share(t, s, "source") != nil)
	}
}

type heldInsertStore struct {
	linkStore
	held chan struct{}
}

func (s heldInsertStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	<-s.held
	return s.linkStore.InsertLink(ctx, link, limits)
}

// TestShareLink_LimitOfAnotherClient has a client with too many links, which asks for a link
// to the same file at the same time.
func TestShareLink_LimitOfAnotherClient(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		origin := privateOrigin{newFakeOrigin()}
		db := memory.New().Exports().(linkStore)
		held := heldInsertStore{db, make(chan struct{})}
		share := func(store exports.Store) func(source, client string) error {
			options := &exports.Options{Openers: []exports.Opener{origin}, LinksPerKey: 10}
			s := must(exports.NewService(store, options))(t)
			return func(source, client string) error {
				origin.set("https://files.example/"+source, newFile(100, 1))
				put(t, s, source, "https://files.example/"+source)
				item := must(s.FindItem(t.Context(), exports.BatchOf(source)[0]))(t)
				_, err := s.ShareLink(t.Context(), item, exports.Digest{}, client)
				return err
			}
		}
		is.NoErr(share(db)("1", "full"))
		shareHeld := share(held)
		errs := make([]error, 2)
		for i, client := range []string{"full", "other"} {
			go func() { errs[i] = shareHeld("2", client) }()
			synctest.Wait()
		}
		close(held.held)
		synctest.Wait()
		is.True(errors.Is(errs[0], exports.ErrTooManyLinks))
		is.NoErr(errs[1])
	})
}

// TestShareLink_KeepsTheSource renews a shared link by the source as the client gave it:
// the key of that source has no key.
func TestShareLink_KeepsTheSource(t *testing.T) {
	is := is.New(t)
	const source = "https://cad.example/open?id=7&signature=abc"
	var asked []string
	origin, s := newPrivate(exports.Options{
		SourceKey: func(source string) string { // the id of a drawing
			return must(url.Parse(source))(t).Query().Get("id")
		},
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			asked = append(asked, r.Source)
			return exports.Resolution{ExportedURL: "https://files.example/7"}, nil
		},
	})
	link := share(t, s, source)
	origin.set("https://files.example/7", newFile(100, 2)) // the file is made again
	_, _, err := readCurrent(t.Context(), link)
	is.NoErr(err)
	is.Equal(asked, []string{source, source})
}

func TestShareLink_OfTheRegisteredFile(t *testing.T) {
	is := is.New(t)
	origin, s := newPrivate(exports.Options{})
	put(t, s, "public", "http://public.example/a")
	is.Equal(must(s.PublicURL(t.Context(), resolve(t.Context(), s, "public"), nil))(t), "http://public.example/a")
	a, b := newFile(100, 1), newFile(100, 2)
	origin.set("https://files.example/a", a)
	origin.set("https://files.example/b", b)
	shareNow := func(u string) *exports.Link {
		put(t, s, "s", u)
		return share(t, s, "s")
	}
	first := shareNow("https://files.example/a")
	shareNow("https://files.example/b")
	origin.remove("https://files.example/a")
	_, body, err := readCurrent(t.Context(), first) // renewed: is b now
	is.NoErr(err)
	is.Equal(body, contentOf(b))
	origin.set("https://files.example/a", a)
	again := shareNow("https://files.example/a")
	_, body, err = readCurrent(t.Context(), again)
	is.NoErr(err)
	is.Equal(body, contentOf(a))
}

// TestService_OtherSchemesArePrivate has URLs that only an opener of the application, or of
// an earlier configuration, can know.
func TestService_OtherSchemesArePrivate(t *testing.T) {
	is := is.New(t)
	s := newService(blobs{rows: map[string][]byte{"17": []byte("a plan")}}, exports.Options{})
	registration := exports.Registration{SourceURL: "s", ExportedURL: "blob://database/17"}
	_, _, err := s.Register(t.Context(), registration)
	is.NoErr(err)
	registration.PublicOnly = true
	_, _, err = s.Register(t.Context(), registration)
	is.Equal(err, exports.ErrPrivate)
	_, _, err = newService(newFakeUpstream(), exports.Options{}).Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://x.example/", PublicOnly: true})
	is.NoErr(err)
	item := must(s.FindItem(t.Context(), exports.BatchItem{SourceURL: "s"}))(t)
	url, err := s.PublicURL(t.Context(), item, func(context.Context, exports.BatchItem) (string, error) { return "link", nil })
	is.NoErr(err)
	is.Equal(url, "link")
	item.Export.ExportedURL = "https://elsewhere.example/a.pdf"
	url = must(s.PublicURL(t.Context(), item, nil))(t)
	is.Equal(url, item.Export.ExportedURL)
	item.Export.ExportedURL = "s3://removed/a.pdf"
	_, err = s.PublicURL(t.Context(), item, nil)
	is.True(errors.Is(err, exports.ErrForbidden))
	_, err = s.Open(t.Context(), *item.Export)
	is.Equal(err, exports.ErrForbidden)
	_, err = s.CreateLink(t.Context(), exports.LinkRequest{Items: []exports.BatchItem{item}, Single: true})
	is.Equal(err, exports.ErrForbidden)
}

// TestShareLink_OfAnotherSignature shares the file of a source with a newer signature. Its
// link is renewed by that source.
func TestShareLink_OfAnotherSignature(t *testing.T) {
	is := is.New(t)
	valid := "?signature=first"
	origin, s := newPrivate(exports.Options{
		SourceKey: withoutQuery,
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			if !strings.HasSuffix(r.Source, valid) {
				return exports.Resolution{}, exports.ErrNotFound
			}
			return exports.Resolution{ExportedURL: "https://files.example/7"}, nil
		},
	})
	share(t, s, "https://cad.example/7?signature=first")
	valid = "?signature=second" // the first has expired
	link := share(t, s, "https://cad.example/7?signature=second")
	put(t, s, "https://cad.example/8", "https://files.example/7")
	is.Equal(share(t, s, "https://cad.example/8?signature=first").Token, share(t, s, "https://cad.example/8").Token)
	origin.set("https://files.example/7", newFile(100, 2)) // the file is made again
	_, _, err := readCurrent(t.Context(), link)
	is.NoErr(err)
}
