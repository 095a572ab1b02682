package revocation_test

import (
	"testing"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/keys/internal/pagetoken"
	"example.com/canvasback/storage/testflag"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

func newService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	return must(keys.NewService(store, options))(tb)
}

func issue(tb testing.TB, s *keys.Service) keys.Issued {
	tb.Helper()
	return must(s.Create(tb.Context(), keys.Fields{}))(tb)
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
	return errorOf(s.Verify(tb.Context(), string(raw)))
}
