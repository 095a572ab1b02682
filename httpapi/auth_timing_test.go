package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"hash/crc32"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// BenchmarkTiming tells by statistics whether the time of a key check depends
// on how much of a guess is right: by Welch's t over guesses that are right but
// for their end, and others (Reparaz, Balasch and Verbauwhede, "Dude, is my code
// constant time?"). The control compares byte by byte, and has to be caught.
// Times are measured here, so it is no test:
//
//	go test -run '^$' -bench Timing -benchtime 1x ./httpapi
func BenchmarkTiming(b *testing.B) {
	// A quiet machine gives less than 5 where there is nothing, and 10 is
	// beyond all chance.
	const evident = 10
	const samples = 100_000
	secret, decoy := []byte(rand.Text()+rand.Text()), []byte(rand.Text()+rand.Text())
	asItIs := func([]byte) {}

	b.Run("control", func(b *testing.B) {
		long := bytes.Repeat(secret, 1000)
		t := 0.0
		for b.Loop() {
			t = tell(2000, guessesOf(long, bytes.Repeat(decoy, 1000), asItIs), func(guess string) { equalByByte(long, guess) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) < evident {
			b.Fatalf("t is %.1f: a comparison that ends early is not noticed, so nothing would be", t)
		}
	})
	b.Run("admin key", func(b *testing.B) {
		admin := newAdminKeys([]string{"another admin key", string(secret)})
		t := 0.0
		for b.Loop() {
			t = tell(samples, guessesOf(secret, decoy, asItIs), func(guess string) { admin.check([]string{guess}) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) > evident {
			b.Fatalf("t is %.1f: the time of a check tells how much of an admin key is right", t)
		}
	})
	b.Run("client key", func(b *testing.B) {
		service := newKeyService(b, memory.New().Keys(), nil)
		issued, err := service.Create(context.Background(), keys.Fields{})
		if err != nil {
			b.Fatal(err)
		}
		other, err := newKeyService(b, memory.New().Keys(), nil).Create(context.Background(), keys.Fields{})
		if err != nil {
			b.Fatal(err)
		}
		t := 0.0
		for b.Loop() {
			t = tell(samples, guessesOf([]byte(issued.Raw), []byte(other.Raw), seal), func(guess string) { service.Verify(context.Background(), guess) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) > evident {
			b.Fatalf("t is %.1f: the time of a check tells how much of a raw key is right", t)
		}
	})
}

// equalByByte is how not to compare secrets.
func equalByByte(secret []byte, guess string) bool {
	for i := range secret {
		if i >= len(guess) || secret[i] != guess[i] {
			return false
		}
	}
	return len(secret) == len(guess)
}

// guessesOf makes guesses of two classes that differ in nothing but that one is
// near a secret and the other near a decoy of the same kind: each but for a
// digit close to its end.
func guessesOf(secret, decoy []byte, finish func([]byte)) func(class int) string {
	return func(class int) string {
		guess := slices.Clone([][]byte{secret, decoy}[class])
		at := len(guess) - 7 // of a raw key, the checksum is behind it
		guess[at] = digits[(strings.IndexByte(digits, guess[at])+1+mathrand.IntN(len(digits)-1))%len(digits)]
		finish(guess)
		return string(guess)
	}
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// seal makes the checksum of a raw key right.
func seal(raw []byte) {
	n := crc32.ChecksumIEEE(raw[:len(raw)-6])
	for i := len(raw) - 1; i >= len(raw)-6; i-- {
		raw[i] = digits[n%62]
		n /= 62
	}
}

// tell returns Welch's t of the times that check takes for guesses of the two
// classes, without the slowest tenth, which tells of the machine. All guesses
// are there before the first is timed: making one class could take longer.
func tell(samples int, guess func(class int) string, check func(string)) float64 {
	const checks = 8
	type sample struct {
		class int
		guess string
		took  float64
	}
	all := make([]sample, samples)
	for i := range all {
		class := mathrand.IntN(2)
		all[i] = sample{class: class, guess: guess(class)}
	}
	for i := range all {
		began := time.Now()
		for range checks {
			check(all[i].guess)
		}
		all[i].took = float64(time.Since(began))
	}
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	var n, mean, squares [2]float64
	for _, s := range all[:samples*9/10] {
		n[s.class]++
		delta := s.took - mean[s.class]
		mean[s.class] += delta / n[s.class]
		squares[s.class] += delta * (s.took - mean[s.class])
	}
	variance := func(class int) float64 { return squares[class] / (n[class] - 1) / n[class] }
	return (mean[0] - mean[1]) / math.Sqrt(variance(0)+variance(1))
}

// newKeyService returns a Service for options that must be valid.
func newKeyService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	service, err := keys.NewService(store, options)
	if err != nil {
		tb.Fatal(err)
	}
	return service
}
