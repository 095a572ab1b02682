package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"
)

type adminKeys struct {
	list      []*adminKey
	comparing chan struct{} // has a value while a request compares a key with the hashes
}

// adminKey is a key in clear or hashed. A comparison with a bcrypt hash takes tens of
// milliseconds, so the digest of the right key is remembered. No other is, so requests
// cannot fill the memory.
type adminKey struct {
	number int                               // counts from 1
	hash   []byte                            // bcrypt; nil for a key in clear
	digest atomic.Pointer[[sha256.Size]byte] // nil before the first use of a hashed key
}

const (
	maxBcryptKey  = 72 // bytes; bcrypt ignores others
	maxBcryptCost = 16 // takes seconds
)

var (
	bcryptPrefix = regexp.MustCompile(`^\$2[aby]\$`)
	bcryptHash   = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)
)

// newAdminKeys ignores empty keys. It returns an error for a malformed hash.
func newAdminKeys(list []string) (*adminKeys, error) {
	k := &adminKeys{comparing: make(chan struct{}, 1)}
	for i, key := range list {
		if key = strings.TrimSpace(key); key == "" { // as of a file that ends with a newline
			continue
		}
		added := &adminKey{number: i + 1}
		k.list = append(k.list, added)
		if !bcryptPrefix.MatchString(key) {
			added.digest.Store(new(sha256.Sum256([]byte(key))))
			continue
		}
		cost, err := bcrypt.Cost([]byte(key))
		if err != nil || !bcryptHash.MatchString(key) || cost > maxBcryptCost {
			return nil, fmt.Errorf("admin key %d begins like a bcrypt hash, but is none with a cost of %d to %d", i+1, bcrypt.MinCost, maxBcryptCost)
		}
		added.hash = []byte(key)
	}
	return k, nil
}

// find returns a clear or remembered key, or nil, and whether the key must be compared
// with the hashes. It compares digests, and all of them: its time depends neither on the
// length of a key nor on the first difference.
func (k *adminKeys) find(key string) (found *adminKey, slow bool) {
	digest := sha256.Sum256([]byte(key))
	hashed := false
	for _, a := range k.list {
		if right := a.digest.Load(); right != nil && subtle.ConstantTimeCompare(right[:], digest[:]) == 1 {
			found = a
		}
		hashed = hashed || a.hash != nil
	}
	return found, hashed && found == nil && len(key) <= maxBcryptKey
}

// compare compares a key with all hashes and returns the right one, or nil. It makes one
// comparison at a time, so wrong keys occupy one core. Waiting ends with ctx.
func (k *adminKeys) compare(ctx context.Context, key string) (found *adminKey, err error) {
	select {
	case k.comparing <- struct{}{}:
		defer func() { <-k.comparing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if found, slow := k.find(key); !slow { // another request was first
		return found, nil
	}
	for _, a := range k.list {
		if a.hash != nil && bcrypt.CompareHashAndPassword(a.hash, []byte(key)) == nil {
			a.digest.Store(new(sha256.Sum256([]byte(key))))
			found = cmp.Or(found, a)
		}
	}
	return found, nil
}
