package keys

import (
	"bytes"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

var rawKeyFormat = regexp.MustCompile(`\A([0-9A-Za-z_]{1,32})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})\z`)

// referenceWellFormed implements wellFormed with a regular expression, math/big
// and a bitwise CRC-32.
func referenceWellFormed(text string) bool {
	parts := rawKeyFormat.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	secret := parseBase62(parts[2])
	sum := parseBase62(parts[3])
	return secret.BitLen() <= 256 && sum.Cmp(new(big.Int).SetUint64(uint64(referenceCRC32(text[:len(text)-6])))) == 0
}

// parseBase62 returns the number that text encodes.
func parseBase62(text string) *big.Int {
	n := new(big.Int)
	for _, digit := range text {
		n.Mul(n, big.NewInt(62))
		n.Add(n, big.NewInt(int64(strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", digit))))
	}
	return n
}

// referenceCRC32 returns the CRC-32 (IEEE) of text.
func referenceCRC32(text string) uint32 {
	crc := ^uint32(0)
	for i := range len(text) {
		crc ^= uint32(text[i])
		for range 8 {
			crc = crc>>1 ^ -(crc&1)&0xedb88320
		}
	}
	return ^crc
}

// FuzzWellFormed compares wellFormed with referenceWellFormed, also on text with
// a correct checksum, which random input does not have.
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
		is := is.New(t)
		candidates := []string{text}
		if len(text) > sumDigits {
			body := text[:len(text)-sumDigits]
			candidates = append(candidates, body+checksum(body))
		}
		for _, candidate := range candidates {
			is.Equal(wellFormed(candidate), referenceWellFormed(candidate))
		}
	})
}

// FuzzBase62 encodes raw keys and decodes their secrets.
func FuzzBase62(f *testing.F) {
	f.Add("cbk", make([]byte, 32))
	f.Add("a_b_", bytes.Repeat([]byte{0xff}, 32))
	f.Add("_", append(make([]byte, 31), 62))
	f.Fuzz(func(t *testing.T, prefix string, random []byte) {
		if !validPrefix(prefix) {
			return
		}
		var secret [secretBytes]byte
		copy(secret[:], random)
		n := new(big.Int).SetBytes(secret[:])
		text := prefix + "_" + base62(n, secretDigits)
		raw := text + checksum(text)
		is := is.New(t)
		is.True(referenceWellFormed(raw))
		is.True(wellFormed(raw))
		is.Equal(parseBase62(raw[len(prefix)+1:len(raw)-sumDigits]).Cmp(n), 0)
	})
}
