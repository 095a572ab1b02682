package keys

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultLifetime = time.Hour
	maxLifetime     = 24 * time.Hour

	// lifetimeSlack is how much later than maxLifetime a token may end, because clocks
	// differ and expiries are whole seconds.
	lifetimeSlack = time.Minute

	maxSources = 100 // of a token
)

// maxTokensOfKey is how many slots of a set the tokens of one key take at most: a
// sixteenth, so that one key cannot evict the tokens of others.
const maxTokensOfKey = 4

// tokenCache holds page tokens with a valid signature by digest. It is a [table] with
// larger sets, and needs no lease, because the signature of a token stays valid.
type tokenCache struct {
	sets []tokenSet
	mu   sync.Mutex // held by put
}

type tokenSet [16 * maxTokensOfKey]atomic.Pointer[verifiedToken]

func newTokenCache(size int) *tokenCache {
	return &tokenCache{sets: make([]tokenSet, max(1, size/len(tokenSet{})))}
}

func (c *tokenCache) find(digest *Digest) (s *tokenSet, first int) {
	i, _ := bits.Mul64(binary.NativeEndian.Uint64(digest[:]), uint64(len(c.sets)))
	return &c.sets[i], int(digest[8])
}

// get returns the token with the digest, or nil.
func (c *tokenCache) get(digest *Digest) *verifiedToken {
	s, first := c.find(digest)
	for i := range len(s) {
		if t := s[(first+i)%len(s)].Load(); t != nil && t.digest == *digest {
			return t
		}
	}
	return nil
}

// put adds a token: in place of another one of its key if these have all their slots,
// or else in the first slot that is free, or else in place of any one.
func (c *tokenCache) put(t *verifiedToken, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, first := c.find(&t.digest)
	var free, own *atomic.Pointer[verifiedToken]
	owned := 0
	for i := range len(s) {
		slot := &s[(first+i)%len(s)]
		switch other := slot.Load(); {
		case other == nil, !now.Before(other.ExpiresAt):
			if free == nil {
				free = slot
			}
		case other.digest == t.digest:
			return
		case other.keyID == t.keyID:
			owned++
			own = slot
		}
	}
	switch {
	case owned >= maxTokensOfKey:
		own.Store(t)
	case free != nil:
		free.Store(t)
	default:
		s[first%len(s)].Store(t)
	}
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

// tokenDigest returns the SHA-256 of a token. Longer ones are copied to the heap.
func tokenDigest(text string) Digest {
	var short [256]byte
	return sha256.Sum256(append(short[:0], text...))
}
