package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"
)

// adminKeys are the accepted admin keys. Numbers of keys count from 1.
type adminKeys struct {
	clear  []clearAdminKey
	hashed []*hashedAdminKey

	secret    []byte        // random, of the HMACs
	comparing chan struct{} // has a value while a request compares a key with the hashes
}

type clearAdminKey struct {
	number int
	digest [sha256.Size]byte
}

// hashedAdminKey is a bcrypt hash. A comparison takes tens of milliseconds, so the
// HMAC of the right key is remembered. No other key is, so requests cannot fill the
// memory.
type hashedAdminKey struct {
	number int
	hash   []byte
	mac    atomic.Pointer[[sha256.Size]byte] // of the right key, nil before its first use
}

const (
	maxBcryptKey  = 72 // bytes; bcrypt ignores others
	maxBcryptCost = 16 // takes seconds
)

var bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

// newAdminKeys ignores empty keys. It returns an error for a malformed hash.
func newAdminKeys(list []string) (*adminKeys, error) {
	k := &adminKeys{secret: make([]byte, sha256.Size), comparing: make(chan struct{}, 1)}
	rand.Read(k.secret) // never fails
	for i, key := range list {
		switch {
		case key == "":
		case strings.HasPrefix(key, "$2a$"), strings.HasPrefix(key, "$2b$"), strings.HasPrefix(key, "$2y$"):
			cost, err := bcrypt.Cost([]byte(key))
			if err != nil || !bcryptHash.MatchString(key) || cost > maxBcryptCost {
				return nil, fmt.Errorf("admin key %d begins like a bcrypt hash, but is none with a cost of %d to %d", i+1, bcrypt.MinCost, maxBcryptCost)
			}
			k.hashed = append(k.hashed, &hashedAdminKey{number: i + 1, hash: []byte(key)})
		default:
			k.clear = append(k.clear, clearAdminKey{i + 1, sha256.Sum256([]byte(key))})
		}
	}
	return k, nil
}

func (k *adminKeys) empty() bool { return len(k.clear)+len(k.hashed) == 0 }

// isClear reports whether the key with the number is configured in clear.
func (k *adminKeys) isClear(number int) bool {
	return slices.ContainsFunc(k.clear, func(c clearAdminKey) bool { return c.number == number })
}

// find returns the number of a clear or remembered key, or zero, and whether the
// key must be compared with the hashes. It compares digests, and all of them: its
// time depends neither on the length of a key nor on the first difference.
func (k *adminKeys) find(key string) (number int, slow bool) {
	digest := sha256.Sum256([]byte(key))
	for _, c := range k.clear {
		number = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(c.digest[:], digest[:]), c.number, number)
	}
	if len(k.hashed) == 0 {
		return number, false
	}
	mac := k.mac(key)
	for _, h := range k.hashed {
		if right := h.mac.Load(); right != nil && subtle.ConstantTimeCompare(right[:], mac[:]) == 1 {
			return h.number, false
		}
	}
	return number, number == 0 && len(key) <= maxBcryptKey
}

func (k *adminKeys) mac(key string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(key))
	h.Sum(mac[:0])
	return mac
}

// compare compares a key with all hashes and returns the number of the right one,
// or zero. It makes one comparison at a time, so wrong keys occupy one core. Waiting
// ends with ctx.
func (k *adminKeys) compare(ctx context.Context, key string) (number int, err error) {
	select {
	case k.comparing <- struct{}{}:
		defer func() { <-k.comparing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if number, slow := k.find(key); !slow { // another request was first
		return number, nil
	}
	for _, h := range k.hashed {
		if bcrypt.CompareHashAndPassword(h.hash, []byte(key)) == nil {
			h.mac.Store(new(k.mac(key)))
			number = cmp.Or(number, h.number)
		}
	}
	return number, nil
}
