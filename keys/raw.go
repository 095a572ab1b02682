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
	"math/big"
	"slices"
	"strings"
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

// MarshalText implements [encoding.TextMarshaler].
func (RawKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func newRawKey(prefix string) RawKey {
	var secret [secretBytes]byte
	rand.Read(secret[:]) // never fails
	raw := prefix + "_" + base62(new(big.Int).SetBytes(secret[:]), secretDigits)
	return RawKey(raw + checksum(raw))
}

func checksum(text string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(text)))), sumDigits)
}

// base62 returns n with leading zeros.
func base62(n *big.Int, width int) string {
	text := []byte(n.Text(len(digits))) // its letters are of the other case
	for i, c := range text {
		if c > '9' {
			text[i] = c ^ ('a' - 'A')
		}
	}
	return strings.Repeat("0", width-len(text)) + string(text)
}

// wellFormed reports whether text has the format of a raw key with any prefix:
// keys remain valid when the application changes Options.Prefix.
func wellFormed(text string) bool {
	prefixLen := len(text) - 1 - secretDigits - sumDigits
	if prefixLen < 1 || prefixLen > maxPrefix || text[prefixLen] != '_' {
		return false
	}
	secret, sum := text[prefixLen+1:len(text)-sumDigits], text[len(text)-sumDigits:]
	return sum == checksum(text[:len(text)-sumDigits]) && // most others end here
		validPrefix(text[:prefixLen]) && strings.Trim(secret, digits) == "" && secret <= maxSecret
}

// validPrefix reports whether text may be the prefix of a raw key.
func validPrefix(text string) bool {
	return text != "" && len(text) <= maxPrefix && strings.Trim(text, digits+"_") == ""
}

// Digest identifies a raw key in the store: a SHA-256 or HMAC-SHA-256. It is printed
// as a placeholder.
type Digest [sha256.Size]byte

// Format implements [fmt.Formatter] for every verb.
func (Digest) Format(f fmt.State, _ rune) { io.WriteString(f, "[digest]") }

// PublicKey checks the signatures of page tokens: an Ed25519 public key. With
// [Options.Pepper] it is encrypted, so that someone who can write to the store
// cannot choose one.
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
