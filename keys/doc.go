// Package keys issues and verifies client API keys.
//
// A client key is a record ([Key]) and a secret, the raw key. The raw key is
// returned once, when the key is created or rotated ([Issued]). The store keeps
// only its [Digest], from which the raw key cannot be computed. Prefix and Mask
// are for display and are no credentials.
//
// # Raw keys
//
// A raw key is a prefix, an underscore, 32 random bytes in base62 and a
// checksum:
//
//	cbk_ + 43 digits + 6 digits
//
// The digits are 0-9A-Za-z in that order, and both numbers are padded with
// leading zeros. The checksum is the CRC-32 (IEEE) of everything before it.
// Secret scanners can recognize a key by its format, and a mistyped key is
// rejected without a store read.
//
// The digest is the SHA-256 of the raw key, or its HMAC-SHA-256 with [Options.Pepper]. A
// slow password hash would add no strength to 256 random bits.
//
// With [Options.ForeignKeys], raw keys of another system are accepted too, whose SHA-256
// was imported ([Service.Import]).
//
// # Verification
//
// [Service.Verify] authenticates a request. [ErrMalformed] and [ErrUnknown]
// reveal nothing about any key. [ErrInactive] and [ErrExpired] are returned only
// to a caller that has the raw key. A key with scopes permits only these
// ([Key.Allows]), which the function of [Service.VerifyFunc] checks.
//
// Each successful Verify updates LastUsedAt and UseCount: in memory, and in batches in the
// store. Keys that this Service reads for administration include all uses; those that Verify
// returns do not. A crash loses at most those of one [Options.FlushInterval],
// and a lost response to a write counts its uses twice.
//
// # Page tokens
//
// A page token is what a page gets in place of a raw key. It ends within a day, and may
// be narrowed to scopes and to the sources of exports. [Service.Verify] accepts it and
// returns its key, with [Key.Token] and the scopes that both permit. A use of the token
// is a use of the key.
//
// A token is a payload and an Ed25519 signature, both in base64url without padding:
//
//	cbt_ + payload + . + signature
//
// The payload is JSON: {"k": key id, "e": expiry in Unix seconds, "s": [scopes],
// "x": [sources]}, of which s and x may be absent. The seed of the signature is derived
// from the raw key with HKDF-SHA-256 (no salt, info "canvasback page token", 32 bytes).
// So a holder of the raw key makes tokens without a request; the directory
// examples/pagetoken has programs in Go and JavaScript. With another
// [Options.Prefix], a token begins with that prefix and t_.
//
// The store has the public key of each raw key, and no row for a token: who reads the
// store makes none. A key of an earlier version gets its public key with its first use.
//
// # Revocation
//
// A call that deactivates a key, sets its expiry, scopes or owner, rotates it or
// deletes it is a revoking call. Once it returns, no process accepts what it revoked,
// page tokens included, although most checks are served from a cache.
//
// The store logs every change that can affect a check, in the same transaction
// and no matter which process makes it. Several times per [Options.Lease],
// [Service.Run] asks for the changes since the last response and evicts only
// these keys. Then a new lease begins, as of when the request was sent. Checks use the
// cache only while the lease is valid. After a minute without checks, which leaves
// nothing to serve from the cache, Run asks no more until the next check.
//
// So no process serves a cached result that has been outdated for longer than a
// lease. A revoking call on a shared store returns one lease after its commit.
// Processes exchange no messages, so none can be lost.
//
// If the log no longer reaches back to the last response, or belongs to another
// database, such as a restored copy, all keys are evicted. An entry is served for a
// minute at most, which bounds the effect of changes that bypass the log.
//
// Without Run, or while the store cannot be reached, every check reads the
// store. If that read fails, the error is [ErrUnavailable] and never a
// rejection. All processes that share a store must use the same Options.Lease.
package keys
