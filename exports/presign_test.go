package exports_test

import (
	"context"
	"errors"
	"net/url"
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

func (f *fakeObjectStore) Serves(u *url.URL) bool { return u.Scheme == "store" }

func (f *fakeObjectStore) PublicURL(ctx context.Context, u *url.URL) (string, error) {
	if f.err == context.DeadlineExceeded {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "https://" + u.Host + u.Path + "?signed", f.err
}

func TestService_PublicURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &fakeObjectStore{fakeUpstream: newFakeUpstream()}
		s := must(exports.NewService(memory.New().Exports(), &exports.Options{
			Openers: []exports.Opener{store, newFakeUpstream()}, OpenTimeout: 10 * time.Millisecond,
		}))
		sources := register(t, s, "store://files.example/a", "https://x.example/b")
		items, err := s.FindBatch(t.Context(), append(sources, "unknown"))
		is.NoErr(err)

		public, err := s.PublicURL(t.Context(), *items[0].Export)
		is.NoErr(err)
		is.Equal(public, "https://files.example/a?signed")
		public, err = s.PublicURL(t.Context(), *items[1].Export)
		is.NoErr(err)
		is.Equal(public, "https://x.example/b")
		urls, skipped, err := s.PublicURLs(t.Context(), items)
		is.NoErr(err)
		is.Equal(urls, []string{"https://files.example/a?signed", "https://x.example/b"})
		is.Equal(skipped, []exports.Skipped{{SourceURL: "unknown", Reason: "not registered", Err: exports.ErrNotFound}})

		for _, c := range []struct{ err, want error }{
			{errors.New("no credentials"), exports.ErrFailed},
			{context.DeadlineExceeded, exports.ErrTimeout},
		} {
			store.err = c.err
			_, err = s.PublicURL(t.Context(), *items[0].Export)
			is.True(errors.Is(err, c.want))
			urls, skipped, err = s.PublicURLs(t.Context(), items)
			is.NoErr(err)
			is.Equal(urls, []string{"https://x.example/b"})
			is.True(errors.Is(skipped[0].Err, c.want))
			_, _, err = s.PublicURLs(t.Context(), items[:1])
			batch, ok := errors.AsType[*exports.BatchError](err)
			is.True(ok)
			is.True(errors.Is(batch, c.want))
			is.Equal(len(batch.Skipped), 1)
		}
	})
}

func TestRegister_RejectsSchemeWithoutOpener(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{})
	_, _, err := s.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "store://files.example/a"})
	is.True(errors.Is(err, exports.ErrInvalid))
}
