package keys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestNewRawKey_ReturnsUniqueWellFormedKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	seen := make(map[RawKey]bool)
	for range 1000 {
		raw := newRawKey("cbk")
		is.Equal(len(raw), len("cbk_")+43+6)
		is.True(wellFormed(string(raw)))
		is.True(!seen[raw])
		seen[raw] = true
	}
}

func TestWellFormed_RejectsOtherText(t *testing.T) {
	t.Parallel()
	raw := string(newRawKey("cbk"))
	withChecksum := func(text string) string { return text + checksum(text) }
	for name, text := range map[string]string{
		"empty":                "",
		"no prefix":            raw[3:],
		"empty prefix":         withChecksum("_" + raw[4:47]),
		"too short":            raw[:len(raw)-1],
		"too long":             raw + "0",
		"leading space":        " " + raw,
		"trailing space":       raw + " ",
		"other digit":          raw[:20] + "-" + raw[21:],
		"umlaut":               raw[:20] + "ä" + raw[22:],
		"no underscore":        strings.Replace(raw, "_", "-", 1),
		"checksum of another":  raw[:47] + string(newRawKey("cbk"))[47:],
		"secret over 32 bytes": withChecksum("cbk_" + strings.Repeat("z", 43)),
		"secret of 2^256":      withChecksum("cbk_" + maxSecret[:42] + string(maxSecret[42]+1)),
		"prefix too long":      withChecksum(strings.Repeat("p", 33) + raw[3:47]),
		"invalid prefix":       withChecksum("c-k" + raw[3:47]),
	} {
		t.Run(name, func(t *testing.T) { is.New(t).True(!wellFormed(text)) })
	}
}

func TestWellFormed_RejectsEveryTypo(t *testing.T) {
	t.Parallel()
	raw := string(newRawKey("cbk"))
	var accepted []string
	check := func(typo string) {
		if typo != raw && wellFormed(typo) {
			accepted = append(accepted, typo)
		}
	}
	for i := range len(raw) {
		for _, c := range digits {
			check(raw[:i] + string(c) + raw[i+1:])
		}
		if i > 0 {
			check(raw[:i-1] + raw[i:i+1] + raw[i-1:i] + raw[i+1:]) // swapped digits
		}
	}
	is.New(t).Equal(strings.Join(accepted, " "), "")
}

func TestRawKey_MasksSecret(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var key Key
	s := Service{options: Options{Prefix: "acme"}, digesters: []*digester{newDigester(nil)}}
	raw := s.setRawKey(&key)
	is.Equal(key.Prefix, string(raw[:len("acme_")+6]))
	is.Equal(key.Mask, string(raw[:len("acme_")+6])+"****"+string(raw[len(raw)-4:]))
	is.True(!wellFormed(key.Mask))
}

func TestRawKey_FormatsAsPlaceholder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	raw := newRawKey("cbk")
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb, raw, raw)
		fmt.Fprintf(&out, verb, &raw, []RawKey{raw})
		fmt.Fprintf(&out, verb, Issued{Raw: raw}, map[string]RawKey{"k": raw})
	}
	fmt.Fprint(&out, raw, Issued{Raw: raw})
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "raw", raw, "issued", Issued{Raw: raw}, slog.Group("g", "raw", raw))
	}
	encoded, err := json.Marshal(Issued{Raw: raw})
	is.NoErr(err)
	out.Write(encoded)
	secret := string(raw[10:])
	is.True(!strings.Contains(out.String(), secret))                            // as text
	is.True(!strings.Contains(out.String(), fmt.Sprintf("%x", secret)))         // in hexadecimal
	is.True(!strings.Contains(out.String(), fmt.Sprintf("%d", []byte(secret)))) // in numbers
	is.Equal(string(raw)[:4], "cbk_")                                           // the conversion returns it
}

func TestDigest_FormatsAsPlaceholder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	digest := newDigester(nil).digest("raw")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		is.Equal(fmt.Sprintf(verb, digest), "[digest]")
		is.True(strings.Contains(fmt.Sprintf(verb, Key{Digest: digest}), "[digest]"))
	}
}

func TestDigester_UsesHMACWithPepper(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	raw := strings.Repeat("r", maxRaw)
	is.Equal(newDigester(nil).digest(raw), Digest(sha256.Sum256([]byte(raw))))
	mac := hmac.New(sha256.New, []byte("pepper"))
	mac.Write([]byte(raw))
	peppered := newDigester([]byte("pepper"))
	for range 3 {
		is.Equal(peppered.digest(raw), Digest(mac.Sum(nil)))
	}
	is.True(newDigester([]byte("other")).digest(raw) != peppered.digest(raw))
}

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

func parseBase62(text string) *big.Int {
	n := new(big.Int)
	for _, digit := range text {
		n.Mul(n, big.NewInt(62))
		n.Add(n, big.NewInt(int64(strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", digit))))
	}
	return n
}

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
	f.Add("P_" + strings.Repeat("0", 49))
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
	f.Add("cbk", append(make([]byte, 31), 1))
	f.Add("cbk", []byte{0x80})
	f.Add("cbk", []byte("exactly thirty-two random bytes!"))
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
