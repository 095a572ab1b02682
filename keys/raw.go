package keys

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"sync"
)

const (
	defaultPrefix = "cbk"

	digits       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretBytes  = 32
	secretDigits = 43
	sumDigits    = 6

	maxPrefix = 32
	maxRaw    = maxPrefix + 1 + secretDigits + sumDigits

	// maxSecret is 2^256-1. The digits are in ASCII order, so numbers of equal
	// width compare like strings.
	maxSecret = "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1"

	shownDigits = 6 // of the secret, shown in Prefix and Mask
	shownTail   = 4 // of the checksum, shown in Mask
)

// RawKey is the secret of a client key, or a page token. To keep it out of logs and JSON, it
// formats and encodes as a placeholder; string(raw) is the secret itself.
type RawKey string

const redacted = "[raw key]"

// Format implements [fmt.Formatter] for every verb.
func (RawKey) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) }

// LogValue implements [slog.LogValuer].
func (RawKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements [encoding.TextMarshaler].
func (RawKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// prefix returns the part of a raw key that may be displayed.
func (raw RawKey) prefix() string {
	return string(raw[:len(raw)-sumDigits-secretDigits+shownDigits])
}

// mask returns the raw key with its middle replaced.
func (raw RawKey) mask() string {
	return raw.prefix() + "****" + string(raw[len(raw)-shownTail:])
}

// newRawKey returns a random raw key.
func newRawKey(prefix string) RawKey {
	var secret [secretBytes]byte
	rand.Read(secret[:]) // never fails

	raw := make([]byte, 0, len(prefix)+1+secretDigits+sumDigits)
	raw = append(raw, prefix...)
	raw = append(raw, '_')
	raw = appendSecret(raw, secret)
	sum := checksum(string(raw))
	return RawKey(append(raw, sum[:]...))
}

// appendSecret appends secret, a big-endian number, in base62.
func appendSecret(dst []byte, secret [secretBytes]byte) []byte {
	var text [secretDigits]byte
	for i := len(text) - 1; i >= 0; i-- {
		remainder := 0
		for j, b := range secret {
			n := remainder<<8 | int(b)
			secret[j] = byte(n / len(digits))
			remainder = n % len(digits)
		}
		text[i] = digits[remainder]
	}
	return append(dst, text[:]...)
}

// checksum returns the CRC-32 of text in base62.
func checksum(text string) [sumDigits]byte {
	n := crc32.ChecksumIEEE([]byte(text))
	var sum [sumDigits]byte
	for i := len(sum) - 1; i >= 0; i-- {
		sum[i] = digits[n%uint32(len(digits))]
		n /= uint32(len(digits))
	}
	return sum
}

// wellFormed reports whether text has the format of a raw key with any prefix:
// keys remain valid when the application changes Options.Prefix.
func wellFormed(text string) bool {
	prefixLen := len(text) - 1 - secretDigits - sumDigits
	if prefixLen < 1 || prefixLen > maxPrefix || text[prefixLen] != '_' || !validPrefix(text[:prefixLen]) {
		return false
	}
	secret := text[prefixLen+1 : len(text)-sumDigits]
	for i := range len(secret) {
		if !isDigit(secret[i]) {
			return false
		}
	}
	if secret > maxSecret {
		return false
	}
	sum := checksum(text[:len(text)-sumDigits])
	return text[len(text)-sumDigits:] == string(sum[:])
}

// validPrefix reports whether text may be the prefix of a raw key.
func validPrefix(text string) bool {
	if text == "" || len(text) > maxPrefix {
		return false
	}
	for i := range len(text) {
		if !isDigit(text[i]) && text[i] != '_' {
			return false
		}
	}
	return true
}

// isDigit reports whether c is a base62 digit.
func isDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// Digest identifies a raw key in the store: a SHA-256 or HMAC-SHA-256. It is printed
// as a placeholder.
type Digest [sha256.Size]byte

// Format implements [fmt.Formatter] for every verb.
func (Digest) Format(f fmt.State, _ rune) { io.WriteString(f, "[digest]") }

// PublicKey checks the signatures of page tokens: an Ed25519 public key. With
// [Options.Pepper] it is encrypted, so that nobody can choose one who writes into the
// store.
type PublicKey [ed25519.PublicKeySize]byte

// digester computes digests with one pepper, or with none.
type digester struct {
	macs *sync.Pool // of hash.Hash; nil without a pepper
}

func newDigester(pepper []byte) *digester {
	if len(pepper) == 0 {
		return new(digester)
	}
	pepper = slices.Clone(pepper)
	return &digester{macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, pepper) }}}
}

// digest returns the digest of raw.
func (d *digester) digest(raw string) Digest {
	if d.macs == nil {
		var text [maxRaw]byte // on the stack, unless raw is longer; []byte(raw) would allocate
		return sha256.Sum256(append(text[:0], raw...))
	}
	return d.mac(raw)
}

// seal encrypts the public key of a raw key with the digest, or decrypts it.
func (d *digester) seal(digest Digest, public PublicKey) PublicKey {
	if d.macs != nil {
		mask := d.mac("public key " + string(digest[:])) // no raw key has a space
		subtle.XORBytes(public[:], public[:], mask[:])
	}
	return public
}

func (d *digester) mac(raw string) (digest Digest) {
	mac := d.macs.Get().(hash.Hash)
	defer d.macs.Put(mac)
	mac.Reset()
	io.WriteString(mac, raw)
	mac.Sum(digest[:0])
	return digest
}

// tokenPrefix returns what the page tokens of a Service begin with.
func tokenPrefix(keyPrefix string) string {
	if keyPrefix == defaultPrefix {
		return "cbt_"
	}
	return keyPrefix + "t_"
}
