package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/keys/internal/pagetoken"
)

const (
	defaultLifetime = time.Hour
	maxLifetime     = 24 * time.Hour

	// lifetimeSlack is how much later than maxLifetime a token may end, because clocks
	// differ and expiries are whole seconds.
	lifetimeSlack = time.Minute

	maxSources = 100 // of a token
)

// TokenFields are the restrictions of a page token. The zero value restricts only the lifetime.
type TokenFields struct {
	Lifetime time.Duration // 1 second to 24 hours; an hour if zero
	Scopes   Scopes        // of [NewScopes]; the zero value is no restriction
	Sources  []string      // 1 to 100 source URLs of exports, with which the token has up to 4,096 characters; nil is no restriction
}

// IssueToken returns a page token of a raw key, and the key as [Service.Verify] returns
// it for the token. It does not outlive the raw key. The error is one of Verify, or matches
// [ErrInvalid], or [ErrNotPermitted] if the scopes exceed those of the key or if raw is
// itself a page token. Issuing a token is a use of the key.
func (s *Service) IssueToken(ctx context.Context, raw string, fields TokenFields) (Issued, error) {
	if err := fields.check(); err != nil {
		return Issued{}, err
	}
	e, now, err := s.check(ctx, raw)
	switch {
	case err != nil:
		return Issued{}, err
	case e.key.Token != nil:
		return Issued{}, &textError{"a page token cannot make page tokens", ErrNotPermitted}
	case !fields.Scopes.within(e.key.Scopes):
		return Issued{}, &textError{"scopes must not exceed those of the API key", ErrNotPermitted}
	}
	expires := now.Add(fields.Lifetime + time.Second - 1).Unix()
	if end := e.key.ValidUntil(); !end.IsZero() {
		expires = min(expires, end.Unix())
	}
	claims := pagetoken.Claims{KeyID: e.key.ID, Expires: expires, Scopes: fields.Scopes.List(), Sources: fields.Sources}
	text := pagetoken.Sign(s.tokenPrefix, raw, claims)
	if len(text) > pagetoken.MaxLength {
		return Issued{}, invalid("sources must fit into a token of %d characters", pagetoken.MaxLength)
	}
	used := s.recordUse(e, raw, now)
	if e.key.PublicKey == (PublicKey{}) { // the token can be checked only when the store has it
		if err := s.uses.flush(ctx, []int64{e.key.ID}); err != nil {
			return Issued{}, err
		}
	}
	permitted := newTokenEntry(tokenDigest(text), &claims, fields.Scopes).permitted(e).key
	permitted.LastUsedAt = used
	return Issued{Key: permitted, Raw: RawKey(text)}, nil
}

// check returns an error for the first invalid field, and sets the default.
func (f *TokenFields) check() error {
	f.Lifetime = cmp.Or(f.Lifetime, defaultLifetime)
	if f.Lifetime < time.Second || f.Lifetime > maxLifetime {
		return invalid("expiresInSeconds must be from 1 to %d", maxLifetime/time.Second)
	}
	return cmp.Or(f.Scopes.check(), checkSources(f.Sources))
}

// checkSources accepts nil, or 1 to maxSources source URLs.
func checkSources(list []string) error {
	if list != nil && len(list) == 0 || len(list) > maxSources {
		return invalid("sources must be 1 to %d", maxSources)
	}
	for i, source := range list {
		if strings.TrimSpace(source) == "" || strings.ContainsRune(source, 0) || !utf8.ValidString(source) {
			return invalid("sources[%d] must be text without NUL, and not empty", i)
		}
	}
	return nil
}

// findToken is findRaw for a page token. Its raw key is looked up like that of any other
// check, so a token ends with it on all processes.
func (s *Service) findToken(ctx context.Context, text string, leased bool, now time.Time) (*entry, error) {
	digest := tokenDigest(text)
	token := s.cache.tokens.get(&digest, now)
	if token == nil {
		var err error
		if token, err = s.verifyToken(ctx, text, digest); err != nil {
			return nil, err
		}
		s.cache.putToken(token)
	}
	e, err := s.find(ctx, token.key.Digest, leased, now)
	if err != nil {
		return nil, err
	}
	if e.key.ID != token.key.ID { // the key was deleted, and its raw key imported again
		return nil, ErrUnknown
	}
	return token.permitted(e), nil
}

// verifyToken checks form and signature of a page token. It reads the store once.
func (s *Service) verifyToken(ctx context.Context, text string, digest Digest) (_ *entry, err error) {
	defer recoverToError(&err)
	claims, signedBy, err := pagetoken.Parse(s.tokenPrefix, text)
	if err != nil || checkSources(claims.Sources) != nil {
		return nil, ErrMalformed
	}
	var scopes Scopes
	if claims.Scopes != nil {
		if scopes, err = NewScopes(claims.Scopes...); err != nil {
			return nil, ErrMalformed
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
	defer cancel()
	e := newTokenEntry(digest, &claims, scopes)
	key, err := s.store.FindID(ctx, claims.KeyID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ErrUnknown
	case err != nil:
		return nil, storeError("find key", err)
	}
	for _, d := range s.digesters {
		switch {
		case key.PublicKey != PublicKey{} && signedBy(d.seal(key.Digest, key.PublicKey)):
			e.key.Digest = key.Digest
			return e, nil
		case key.PreviousPublicKey != PublicKey{} && signedBy(d.seal(key.PreviousDigest, key.PreviousPublicKey)):
			e.key.Digest = key.PreviousDigest
			return e, nil
		}
	}
	return nil, ErrUnknown
}

// newTokenEntry returns the entry of a page token, without the digest of its raw key.
func newTokenEntry(digest Digest, claims *pagetoken.Claims, scopes Scopes) *entry {
	token := &Token{hex.EncodeToString(digest[:4]), time.Unix(claims.Expires, 0).UTC(), claims.Sources}
	return &entry{digest: digest, read: time.Now(), key: Key{ID: claims.KeyID, Scopes: scopes, Token: token}}
}

// permitted returns the entry of a raw key with what its page token also permits. It
// remembers the last one, so that checks do not allocate.
func (e *entry) permitted(of *entry) *entry {
	if last := e.last.Load(); last != nil && last.base == of {
		return last
	}
	both := &entry{key: of.key, use: of.use, base: of}
	both.key.Scopes = e.key.Scopes.and(of.key.Scopes)
	both.key.Token = e.key.Token
	e.last.Store(both)
	return both
}

// usable returns an error if the token ends too late, or has ended.
func (t *Token) usable(now time.Time) error {
	switch {
	case t.ExpiresAt.Sub(now) > maxLifetime+lifetimeSlack:
		return ErrMalformed
	case !now.Before(t.ExpiresAt):
		return ErrTokenExpired
	}
	return nil
}

// tokenDigest returns the SHA-256 of a token. Longer ones are copied to the heap.
func tokenDigest(text string) Digest {
	var short [256]byte
	return sha256.Sum256(append(short[:0], text...))
}
