package keys

import (
	"bytes"
	"math/big"
	"regexp"
	"strings"
	"testing"
)

var shape = regexp.MustCompile(`\A([0-9A-Za-z_]{1,32})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})\z`)

// isRawKey is wellFormed by other means: a regular expression, large numbers,
// and the CRC-32 bit by bit.
func isRawKey(text string) bool {
	parts := shape.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	secret := numberOf(parts[2])
	sum := numberOf(parts[3])
	return secret.BitLen() <= 256 && sum.Cmp(new(big.Int).SetUint64(uint64(crcOf(text[:len(text)-6])))) == 0
}

// numberOf reads base62.
func numberOf(text string) *big.Int {
	n := new(big.Int)
	for _, digit := range text {
		n.Mul(n, big.NewInt(62))
		n.Add(n, big.NewInt(int64(strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", digit))))
	}
	return n
}

func crcOf(text string) uint32 {
	crc := ^uint32(0)
	for i := range len(text) {
		crc ^= uint32(text[i])
		for range 8 {
			crc = crc>>1 ^ -(crc&1)&0xedb88320
		}
	}
	return ^crc
}

// FuzzWellFormed compares the two on any text, and on text that is closer to a
// raw key than chance would have it: with the checksum made right.
func FuzzWellFormed(f *testing.F) {
	f.Add(string(newRawKey("cbk")))
	f.Add("cbk_" + strings.Repeat("0", 49))
	f.Add("cbk_" + strings.Repeat("z", 49))
	f.Add("cbk_" + maxSecret + "000000")
	f.Add("cbk_" + maxSecret[:42] + string(maxSecret[42]+1) + "000000")
	f.Add("a_b__" + maxSecret + "000000")
	f.Add(strings.Repeat("p", 32) + "_" + maxSecret + "000000")
	f.Add(strings.Repeat("p", 33) + "_" + maxSecret + "000000")
	f.Add("_" + maxSecret + "000000")
	f.Add("cbk-" + maxSecret + "000000")
	f.Add("cbk_" + maxSecret[:42] + "\u0661000000")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		candidates := []string{text}
		if len(text) > sumDigits {
			body := text[:len(text)-sumDigits]
			sum := checksum(body)
			candidates = append(candidates, body+string(sum[:]))
		}
		for _, candidate := range candidates {
			if got, want := wellFormed(candidate), isRawKey(candidate); got != want {
				t.Errorf("%q is well-formed: %v, want %v", candidate, got, want)
			}
		}
	})
}

// FuzzAppendSecret makes raw keys of any 32 bytes and reads the number back.
func FuzzAppendSecret(f *testing.F) {
	f.Add("cbk", make([]byte, 32))
	f.Add("a_b_", bytes.Repeat([]byte{0xff}, 32))
	f.Add("_", append(make([]byte, 31), 62))
	f.Fuzz(func(t *testing.T, prefix string, random []byte) {
		if !validPrefix(prefix) {
			return
		}
		var secret [secretBytes]byte
		copy(secret[:], random)
		text := string(appendSecret([]byte(prefix+"_"), secret))
		sum := checksum(text)
		raw := text + string(sum[:])
		if !isRawKey(raw) || !wellFormed(raw) {
			t.Errorf("%q of %x is not well-formed", raw, secret)
		}
		if n := numberOf(raw[len(prefix)+1 : len(raw)-sumDigits]); n.Cmp(new(big.Int).SetBytes(secret[:])) != 0 {
			t.Errorf("%q of %x holds %x", raw, secret, n)
		}
	})
}
