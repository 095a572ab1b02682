// Package pagetoken encodes, signs and parses page tokens. It knows no keys beyond
// their ids, and no store.
//
// The raw key is the secret of the signature: whoever holds it makes tokens without a
// server, and the public key, which the store has, makes none.
package pagetoken

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLength is the maximum length of a token in characters.
const MaxLength = 4096

// info separates the seed from other keys that might be derived from a raw key.
const info = "canvasback page token"

var encoding = base64.RawURLEncoding.Strict()

// Claims are what a token states. A nil list is absent and restricts nothing.
type Claims struct {
	KeyID   int64    `json:"k"`
	Expires int64    `json:"e"` // Unix seconds, at most 1<<40: a time.Time could overflow
	Scopes  []string `json:"s,omitzero"`
	Sources []string `json:"x,omitzero"`
}

// errMalformed does not contain the token.
var errMalformed = errors.New("pagetoken: malformed token")

// strict rejects unknown members and null, either of which may be a restriction.
var strict = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ any) error {
		if dec.PeekKind() == 'n' {
			return errMalformed
		}
		return errors.ErrUnsupported // use the default
	})),
)

// Sign returns the token with the claims, whose texts must be valid UTF-8.
func Sign(prefix, rawKey string, c Claims) string {
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	signed := prefix + encoding.EncodeToString(payload)
	return signed + "." + encoding.EncodeToString(ed25519.Sign(privateKey(rawKey), []byte(signed)))
}

// PublicKey returns the key that checks the tokens of a raw key.
func PublicKey(rawKey string) [ed25519.PublicKeySize]byte {
	return [ed25519.PublicKeySize]byte(privateKey(rawKey).Public().(ed25519.PublicKey))
}

func privateKey(rawKey string) ed25519.PrivateKey {
	seed, err := hkdf.Key(sha256.New, []byte(rawKey), nil, info, ed25519.SeedSize)
	if err != nil {
		panic(err) // the length is valid
	}
	return ed25519.NewKeyFromSeed(seed)
}

// Parse returns the claims of a token, which must begin with the prefix, and a function that
// reports whether it was signed with the raw key of a public key.
func Parse(prefix, token string) (c Claims, signedBy func(public [ed25519.PublicKeySize]byte) bool, err error) {
	signed, text, _ := strings.Cut(token, ".")
	payload, ok := strings.CutPrefix(signed, prefix)
	// Decoding ignores line breaks. Those in the payload are covered by the signature.
	if !ok || len(token) > MaxLength || len(text) != encoding.EncodedLen(ed25519.SignatureSize) {
		return Claims{}, nil, errMalformed
	}
	signature, err := encoding.DecodeString(text)
	if err != nil || len(signature) != ed25519.SignatureSize {
		return Claims{}, nil, errMalformed
	}
	decoded, err := encoding.DecodeString(payload)
	if err != nil || json.Unmarshal(decoded, &c, strict) != nil || min(c.KeyID, c.Expires) < 1 || c.Expires > 1<<40 {
		return Claims{}, nil, errMalformed
	}
	return c, func(public [ed25519.PublicKeySize]byte) bool {
		return ed25519.Verify(public[:], []byte(signed), signature)
	}, nil
}
