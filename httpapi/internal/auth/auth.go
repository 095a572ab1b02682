// Package auth authenticates requests. It takes the values of a key header and returns
// an identity or an error. It knows no routes and writes no response.
//
// Invariants: an error does not contain the key. Beyond the rate limit of a client IP,
// no error shows whether an admin key was right, unless the IP knew it before.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/canvasback/httpapi/internal/turns"
	"example.com/canvasback/keys"
)

// Errors of credentials. [Checker.Client] also returns those of [keys.Service.Verify].
var (
	ErrAdminKeyMissing  = errors.New("x-admin-key is missing or sent more than once")
	ErrAdminKeyWrong    = errors.New("x-admin-key is not a valid key")
	ErrAdminOff         = errors.New("no admin key is configured on this server")
	ErrClientKeyMissing = errors.New("x-api-key is missing or sent more than once")
	ErrTokenInvalid     = errors.New("token must be one page token")
)

// LimitError means that a client IP has sent too many wrong keys.
type LimitError struct {
	Wait time.Duration // until the next key
}

func (e *LimitError) Error() string { return "too many wrong keys from this client IP" }

// Options configure a [Checker].
type Options struct {
	Keys      *keys.Service // nil: there are no client keys
	AdminKeys []string      // in clear, or bcrypt hashes; empty ones are ignored
	Burst     int           // wrong keys that a client IP may send at once; negative: unlimited
	Interval  time.Duration // after which it may send one more
	Timeout   time.Duration // of the comparison with bcrypt hashes
}

// Checker checks credentials. It is safe for concurrent use.
type Checker struct {
	keys         *keys.Service
	admin        *adminKeys
	clientLimit  *limiter // of wrong client keys
	adminLimit   *limiter // of wrong admin keys
	recentAdmins recentUses
	timeout      time.Duration
	comparing    turns.Turns[string] // networks of client IPs
}

// New returns a Checker. An error means that a bcrypt hash is malformed.
func New(options Options) (*Checker, error) {
	admin, err := newAdminKeys(options.AdminKeys)
	if err != nil {
		return nil, err
	}
	return &Checker{
		keys:         options.Keys,
		admin:        admin,
		clientLimit:  newLimiter(options.Burst, options.Interval),
		adminLimit:   newLimiter(options.Burst, options.Interval),
		recentAdmins: recentUses{ends: make(expiries[recentUse])},
		timeout:      options.Timeout,
	}, nil
}

// Client returns the client key of a request whose header has the given values. The
// function permit may deny a valid key, which then is no use of it. With the error of
// an inactive or expired key, the key has its ID.
//
// Only wrong keys count for the limit of the client IP, and only then ip is called.
func (c *Checker) Client(ctx context.Context, ip func() string, values []string, permit func(*keys.Key) error) (keys.Key, error) {
	if len(values) != 1 || c.keys == nil {
		return keys.Key{}, ErrClientKeyMissing
	}
	key, err := c.keys.VerifyFunc(ctx, values[0], permit)
	if errors.Is(err, keys.ErrMalformed) || errors.Is(err, keys.ErrUnknown) {
		err = cmp.Or(c.CountWrong(ip()), err)
	}
	return key, err
}

// CountWrong counts a wrong client key, and returns a [LimitError] if the client IP is over
// its limit.
func (c *Checker) CountWrong(ip string) error { return c.clientLimit.take(Network(ip), true) }

// Token is Client for the values of the parameter token in a URL. They must be a page
// token: a raw key in a URL is not accepted, whatever its state.
func (c *Checker) Token(ctx context.Context, ip func() string, values []string, permit func(*keys.Key) error) (keys.Key, error) {
	if len(values) != 1 || !strings.Contains(values[0], ".") { // raw keys have none
		return keys.Key{}, ErrTokenInvalid
	}
	key, err := c.Client(ctx, ip, values, func(key *keys.Key) error {
		if key.Token == nil {
			return ErrTokenInvalid
		}
		return permit(key)
	})
	if key.Token == nil && (err == keys.ErrInactive || err == keys.ErrExpired) { // a raw key of another form
		err = ErrTokenInvalid
	}
	return key, err
}

// Admin returns the number of the admin key of a request, counted from 1. The limit of
// a client IP holds for right keys too, except for a long one in clear that it used recently.
func (c *Checker) Admin(ctx context.Context, ip string, values []string) (number int, err error) {
	switch {
	case len(c.admin.list) == 0:
		return 0, ErrAdminOff
	case len(values) != 1:
		return 0, ErrAdminKeyMissing
	}
	ip = Network(ip)
	key, slow := c.admin.find(values[0])
	use, long := recentUse{ip, key}, len(values[0]) >= minRecentKey && key != nil && key.hash == nil
	if long && c.recentAdmins.has(use) {
		c.recentAdmins.add(use)
		return key.number, nil
	}
	if err := c.adminLimit.take(ip, key == nil); err != nil {
		return 0, err
	}
	if slow {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		err = c.comparing.Do(ctx, ip, func() (err error) {
			key, err = c.admin.compare(ctx, values[0])
			return err
		})
		if err != nil || key != nil { // not known to be wrong
			c.adminLimit.refund(ip)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: wait for the comparison of a key: %w", keys.ErrUnavailable, err)
		}
	}
	if key == nil {
		return 0, ErrAdminKeyWrong
	}
	if long {
		c.recentAdmins.add(use)
	}
	return key.number, nil
}
