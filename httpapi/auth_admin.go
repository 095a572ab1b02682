package httpapi

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"example.com/canvasback/exports"
)

// checkAdmin authenticates a request to an admin route. The limit of a client IP
// holds for right keys too: beyond it a guess does not reveal whether it is right.
func (a *API) checkAdmin(w *response, r *http.Request) error {
	if a.options.AuthenticateAdmin != nil {
		return a.checkAdminLogin(w, r)
	}
	_, values := w.credentials()
	switch {
	case a.admin.empty():
		return errAdminOff
	case len(values) != 1:
		return errAdminKeyMissing
	}
	ip := a.limiter.clientIP(r)
	number, slow := a.admin.find(values[0])
	if err := a.limiter.take(ip, number == 0); err != nil {
		return err
	}
	if slow {
		var err error
		if number, err = a.admin.compare(r.Context(), ip, values[0]); err != nil {
			return err
		}
		if number > 0 {
			a.limiter.refund(ip)
		}
	}
	if number == 0 {
		return errAdminKeyWrong
	}
	w.actor = "admin " + strconv.Itoa(number)
	return nil
}

// checkAdminLogin calls AuthenticateAdmin. Because browsers may add the credentials
// by themselves, such as cookies, it rejects cross-origin requests that change
// something.
func (a *API) checkAdminLogin(w *response, r *http.Request) error {
	if err := a.crossOrigin.Check(r); err != nil {
		return errCrossOrigin
	}
	actor, err := a.options.AuthenticateAdmin(r)
	if err != nil {
		if _, ok := errors.AsType[*DeniedError](err); ok {
			return &permitError{err}
		}
		return fmt.Errorf("%w: %v", errAdminLogin, err) //nolint:errorlint // the cause must not select the response
	}
	w.actor = cmp.Or(actor, "admin")
	return nil
}

// adminKeys are the accepted admin keys. Numbers of keys count from 1.
type adminKeys struct {
	clear  []clearAdminKey
	hashed []*hashedAdminKey

	macs   sync.Pool // of HMACs under a random secret
	seed   maphash.Seed
	queues [256]chan struct{} // by client IP
	turn   chan struct{}      // held while comparing
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
	k := &adminKeys{seed: maphash.MakeSeed(), turn: make(chan struct{}, 1)}
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails
	k.macs.New = func() any { return hmac.New(sha256.New, secret) }
	for i := range k.queues {
		k.queues[i] = make(chan struct{}, 1)
	}
	for i, key := range list {
		switch {
		case key == "":
		case strings.HasPrefix(key, "$2a$"), strings.HasPrefix(key, "$2b$"), strings.HasPrefix(key, "$2y$"):
			cost, err := bcrypt.Cost([]byte(key))
			if err != nil || !bcryptHash.MatchString(key) || cost > maxBcryptCost {
				return nil, fmt.Errorf("httpapi: admin key %d begins like a bcrypt hash, but is none with a cost of %d to %d", i+1, bcrypt.MinCost, maxBcryptCost)
			}
			k.hashed = append(k.hashed, &hashedAdminKey{number: i + 1, hash: []byte(key)})
		default:
			k.clear = append(k.clear, clearAdminKey{i + 1, sha256.Sum256([]byte(key))})
		}
	}
	return k, nil
}

func (k *adminKeys) empty() bool { return len(k.clear)+len(k.hashed) == 0 }

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
	h := k.macs.Get().(hash.Hash)
	defer k.macs.Put(h)
	h.Reset()
	h.Write([]byte(key))
	h.Sum(mac[:0])
	return mac
}

// compare compares a key with all hashes and returns the number of the right one,
// or zero. It makes one comparison at a time, and waits in a queue of the client IP
// before: an attacker's guesses occupy one core, and delay a key from elsewhere by
// one guess.
func (k *adminKeys) compare(ctx context.Context, ip, key string) (number int, err error) {
	queue := k.queues[maphash.String(k.seed, ip)%uint64(len(k.queues))]
	for _, lock := range []chan struct{}{queue, k.turn} {
		select {
		case lock <- struct{}{}:
			defer func() { <-lock }()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if number, slow := k.find(key); !slow { // another request was first
			return number, nil
		}
	}
	for _, h := range k.hashed {
		if bcrypt.CompareHashAndPassword(h.hash, []byte(key)) == nil {
			h.mac.Store(new(k.mac(key)))
			number = cmp.Or(number, h.number)
		}
	}
	return number, nil
}

// DeniedError is an error of [Options.Authorize] or [Options.AuthenticateAdmin] with
// a text for the client. The response is 403, or 429 with Retry-After if RetryAfter
// is positive.
type DeniedError struct {
	Message    string
	RetryAfter time.Duration
}

func (e *DeniedError) Error() string { return e.Message }

// permitError is an error of Authorize or AuthenticateAdmin. It does not wrap the
// cause, which must not select another response.
type permitError struct{ cause error }

func (e *permitError) Error() string { return e.cause.Error() }

func (e *permitError) response() errorResponse {
	out := errorResponse{e, http.StatusForbidden, "forbidden", "this is not permitted"}
	if denied, ok := errors.AsType[*DeniedError](e.cause); ok {
		out.message = denied.Message
		if denied.RetryAfter > 0 {
			out.status, out.code = http.StatusTooManyRequests, "too_many_requests"
		}
	}
	return out
}

// retryAfter returns how long the client has to wait, or zero.
func retryAfter(err error) time.Duration {
	if limit, ok := errors.AsType[*rateLimitError](err); ok {
		return limit.retryAfter
	}
	if limit, ok := errors.AsType[*exports.LinkLimitError](err); ok {
		return limit.RetryAfter
	}
	if permit, ok := errors.AsType[*permitError](err); ok {
		if denied, ok := errors.AsType[*DeniedError](permit.cause); ok {
			return denied.RetryAfter
		}
	}
	return 0
}
