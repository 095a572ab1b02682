package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/keys/internal/pagetoken"
)

// TokenFields are the restrictions of a page token. The zero value has none but an hour.
type TokenFields struct {
	Lifetime time.Duration // 1 second to 24 hours; an hour if zero
	Scopes   Scopes        // of [NewScopes]; the zero value is no restriction
	Sources  []string      // up to 100 source URLs of exports; nil is no restriction
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
		s.stats.countError(err)
		return Issued{}, err
	case e.key.Token != nil:
		return Issued{}, notPermitted("a page token cannot make page tokens")
	case !fields.Scopes.within(e.key.Scopes):
		return Issued{}, notPermitted("scopes must not exceed those of the API key")
	}
	expires := now.Add(fields.Lifetime + time.Second - 1).Unix()
	if end := e.key.ValidUntil(); !end.IsZero() {
		expires = min(expires, end.Unix())
	}
	text := pagetoken.Sign(s.tokenPrefix, raw, pagetoken.Claims{
		KeyID: e.key.ID, Expires: expires, Scopes: fields.Scopes.List(), Sources: fields.Sources,
	})
	if len(text) > pagetoken.MaxLength {
		return Issued{}, invalid(fmt.Sprintf("sources must fit into a token of %d characters", pagetoken.MaxLength))
	}
	var key Key
	s.recordUse(e, raw, now, &key)
	if e.unsigned { // the token can be checked only when the store has the public key
		use := Use{ID: key.ID, CreatedAt: key.CreatedAt, At: key.LastUsedAt, Digest: key.Digest, PublicKey: s.publicKey(raw, key.Digest)}
		if err := s.store.Touch(ctx, []Use{use}, s.now()); err != nil {
			return Issued{}, storeError("store public key", err)
		}
	}
	t := newVerifiedToken(tokenDigest(text), expires, fields.Scopes, fields.Sources)
	narrowed := t.narrow(e).key
	narrowed.LastUsedAt = key.LastUsedAt
	return Issued{Key: narrowed, Raw: RawKey(text)}, nil
}

// check returns an error for the first invalid field, and sets the default.
func (f *TokenFields) check() error {
	if f.Lifetime == 0 {
		f.Lifetime = defaultLifetime
	}
	if f.Lifetime < time.Second || f.Lifetime > maxLifetime {
		return invalid(fmt.Sprintf("expiresInSeconds must be from 1 to %d", maxLifetime/time.Second))
	}
	if f.Sources != nil {
		return checkSources(f.Sources)
	}
	return nil
}

// checkSources accepts 1 to maxSources source URLs.
func checkSources(list []string) error {
	if len(list) == 0 || len(list) > maxSources {
		return invalid(fmt.Sprintf("sources must be 1 to %d", maxSources))
	}
	for i, source := range list {
		if strings.TrimSpace(source) == "" || strings.ContainsRune(source, 0) || !utf8.ValidString(source) {
			return invalid(fmt.Sprintf("sources[%d] must be text without NUL, and not empty", i))
		}
	}
	return nil
}

// checkToken is check for a page token. Its raw key is looked up like that of any other
// check, so a token ends with it on all processes.
func (s *Service) checkToken(ctx context.Context, text string) (*entry, time.Time, error) {
	now := time.Now()
	digest := tokenDigest(text)
	leased := s.leases.use(now)
	t := s.tokens.get(&digest)
	if t == nil {
		var err error
		if t, err = s.verifyToken(ctx, text, digest); err != nil {
			return nil, now, err
		}
		s.tokens.put(t, now)
	}
	e, err := s.find(ctx, t.signer, leased, now)
	if err != nil {
		return nil, now, err
	}
	if !e.known {
		return nil, now, ErrUnknown
	}
	e = t.narrow(e)
	if s.clock != nil {
		now = s.clock()
	}
	return e, now, t.usable(e, now)
}

// verifyToken checks form and signature of a page token. It reads the store once.
func (s *Service) verifyToken(ctx context.Context, text string, digest Digest) (*verifiedToken, error) {
	parsed, err := pagetoken.Parse(s.tokenPrefix, text)
	if err != nil {
		return nil, ErrMalformed
	}
	var scopes Scopes
	if parsed.Scopes != nil {
		if scopes, err = NewScopes(parsed.Scopes...); err != nil {
			return nil, ErrMalformed
		}
	}
	if parsed.Sources != nil && checkSources(parsed.Sources) != nil {
		return nil, ErrMalformed
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	key, err := s.store.FindID(ctx, parsed.KeyID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ErrUnknown
	case err != nil:
		return nil, storeError("find key", err)
	}
	t := newVerifiedToken(digest, parsed.Expires, scopes, parsed.Sources)
	t.keyID = key.ID
	switch {
	case s.signed(&parsed, key.Digest, key.PublicKey):
		t.signer = key.Digest
	case s.signed(&parsed, key.PreviousDigest, key.PreviousPublicKey):
		t.signer = key.PreviousDigest
	default:
		return nil, ErrUnknown
	}
	return t, nil
}

// signed reports whether a token was signed with the raw key that has the digest and the
// sealed public key.
func (s *Service) signed(t *pagetoken.Token, digest Digest, public PublicKey) bool {
	if public == (PublicKey{}) {
		return false
	}
	for _, d := range s.digesters {
		if t.SignedBy(d.seal(digest, public)) {
			return true
		}
	}
	return false
}
