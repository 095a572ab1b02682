// Package keys issues client API keys and checks them.
//
// A client key is a record ([Key]) and a secret, the raw key. The raw key is
// shown once, when the key is created or rotated ([Issued]); what is kept of
// it is a [Digest], from which it cannot be computed. Prefix and Mask of a
// record are for display: they help a person to recognise a key and are worth
// nothing as a credential.
//
// # Raw keys
//
// A raw key is a prefix, an underscore, 32 random bytes in base62 and a
// checksum:
//
//	cbk_ + 43 digits + 6 digits
//
// The digits are 0-9A-Za-z in that order, both numbers are padded on the left
// with zeros, and the checksum is the CRC-32 (IEEE) of all that stands before
// it. A secret scanner can recognise a key by its shape alone, and a mistyped
// key is refused without asking the store.
//
// The digest is the SHA-256 of the raw key, or its HMAC-SHA-256 when the host
// configures a pepper. A raw key has 256 random bits, so a slow password hash
// would add cost to every request and no strength.
//
// # Checking
//
// [Service.Verify] is what a guard in front of a route calls. Refusals tell
// apart what the caller may know: [ErrMalformed] and [ErrUnknown] say nothing
// about any key, [ErrInactive] and [ErrExpired] are returned only once the
// secret has been proven.
//
// Each success of Verify counts as a use of the key. Uses are kept in memory,
// merged into every record that this Service returns, and written in batches.
//
// # Revocation
//
// Checks are answered from memory in well under a microsecond, and yet a key is
// dead everywhere when the call that revokes it returns: one that deactivates
// it, lets it expire earlier, rotates or deletes it. This is how:
//
// The store keeps a number, the epoch, which it raises together with every
// change that matters to a check, whoever makes it. [Service.Run] asks for it
// several times within a lease of half a second. Memory is used only while the
// last answer was asked for less than a lease ago, and an entry only while the
// epoch is still the one that was known before the entry was read. So no
// process answers from memory what was true longer than a lease ago, and a call
// that revokes waits for so long before it returns; where the store belongs to
// one process, it need not. No message between processes can be lost, because
// there is none; a pooler between here and the database does no harm.
//
// Without Run, and whenever the store does not answer in time, every check
// reads the store. One that cannot be read makes [ErrUnavailable], never a
// refusal. All processes that share a store need the same [Options.Lease].
package keys
