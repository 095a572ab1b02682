package revocation_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/keys/internal/pagetoken"
)

func newService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	is := is.New(tb)
	is.Helper()
	service, err := keys.NewService(store, options)
	is.NoErr(err)
	return service
}

func issue(tb testing.TB, s *keys.Service, fields keys.Fields) keys.Issued {
	is := is.New(tb)
	is.Helper()
	issued, err := s.Create(tb.Context(), fields)
	is.NoErr(err)
	return issued
}

func scopes(list ...string) *keys.Scopes {
	out, err := keys.NewScopes(list...)
	if err != nil {
		panic(err)
	}
	return &out
}

// signToken returns a page token without restrictions.
func signToken(raw keys.RawKey, id int64) keys.RawKey {
	return keys.RawKey(pagetoken.Sign("cbt_", string(raw), pagetoken.Claims{KeyID: id, Expires: time.Now().Add(time.Hour).Unix()}))
}

// verify returns the error of a check.
func verify(tb testing.TB, s *keys.Service, raw keys.RawKey) error {
	_, err := s.Verify(tb.Context(), string(raw))
	return err
}
