package keys

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

// Token is what a page token adds to its key.
type Token struct {
	ID        string // the first 8 hex digits of the token's SHA-256, for logs
	ExpiresAt time.Time
	Sources   []string // the only sources whose exports it is for; nil: all. It must not be changed.
}

// TokenFields are the restrictions of a page token. The zero value has none but an hour.
type TokenFields struct {
	Lifetime time.Duration // 1 second to 24 hours; an hour if zero
	Scopes   Scopes        // of [NewScopes]; the zero value is no restriction
	Sources  []string      // up to 100 source URLs of exports; nil is no restriction
}

// tokenPrefix returns what the page tokens of a Service begin with.
func tokenPrefix(keyPrefix string) string {
	if keyPrefix == defaultPrefix {
		return "cbt_"
	}
	return keyPrefix + "t_"
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

// verifiedToken is a page token with a valid signature. Apart from narrowed it is
// immutable, and it stays true: whether the raw key is still accepted is another
// question.
type verifiedToken struct {
	Token
	digest Digest // of the text
	keyID  int64
	signer Digest // of the raw key
	scopes Scopes // of the token alone

	narrowed atomic.Pointer[entry]
}

func newVerifiedToken(digest Digest, expires int64, scopes Scopes, sources []string) *verifiedToken {
	return &verifiedToken{
		Token: Token{
			ID:        hex.EncodeToString(digest[:4]),
			ExpiresAt: time.Unix(expires, 0).UTC(),
			Sources:   sources,
		},
		digest: digest,
		scopes: scopes,
	}
}

// narrow returns the entry of a raw key with what its token also permits. It remembers
// the last one, so that checks do not allocate.
func (t *verifiedToken) narrow(e *entry) *entry {
	if last := t.narrowed.Load(); last != nil && last.base == e {
		return last
	}
	narrowed := *e
	narrowed.base, narrowed.unsigned = e, false
	narrowed.key.Scopes = t.scopes.and(e.key.Scopes)
	narrowed.key.Token = &t.Token
	t.narrowed.Store(&narrowed)
	return &narrowed
}

// usable is [entry.usable] for a token, in the order of its errors.
func (t *verifiedToken) usable(e *entry, now time.Time) error {
	err := e.usable(now)
	switch {
	case err == ErrUnknown:
		return err
	case t.ExpiresAt.Sub(now) > maxLifetime+lifetimeSlack:
		return ErrMalformed
	case !now.Before(t.ExpiresAt):
		return ErrTokenExpired
	}
	return err
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

// tokenDigest returns the SHA-256 of a token. Longer ones are copied to the heap.
func tokenDigest(text string) Digest {
	var short [256]byte
	return sha256.Sum256(append(short[:0], text...))
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
