package keys

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
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
