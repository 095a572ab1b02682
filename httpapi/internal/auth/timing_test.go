package auth

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

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// BenchmarkTiming tests statistically whether the duration of a key check depends
// on the key: Welch's t-test over candidates that equal a valid key up to their
// end, and others (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant
// time?"). The control compares byte by byte and must be detected. It is not a
// test, because it depends on the machine:
//
//	go test -run '^$' -bench Timing -benchtime 1x ./httpapi/internal/auth
func BenchmarkTiming(b *testing.B) {
	// On an idle machine t is below 5 for a constant-time check.
	const threshold = 10
	const samples = 100_000
	secret, decoy := []byte(rand.Text()+rand.Text()), []byte(rand.Text()+rand.Text())
	unchanged := func([]byte) {}

	b.Run("control", func(b *testing.B) {
		long := bytes.Repeat(secret, 1000)
		t := 0.0
		for b.Loop() {
			t = welchT(2000, candidates(long, bytes.Repeat(decoy, 1000), unchanged), func(candidate string) { equalByByte(long, candidate) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) < threshold {
			b.Fatalf("t is %.1f: a comparison that ends early is not detected", t)
		}
	})
	b.Run("admin key", func(b *testing.B) {
		admin, err := newAdminKeys([]string{"another admin key", string(secret)})
		is.New(b).NoErr(err)
		t := 0.0
		for b.Loop() {
			t = welchT(samples, candidates(secret, decoy, unchanged), func(candidate string) { admin.find(candidate) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) > threshold {
			b.Fatalf("t is %.1f: the duration of a check depends on the admin key", t)
		}
	})
	b.Run("client key", func(b *testing.B) {
		is := is.New(b)
		service := newKeyService(b, memory.New().Keys(), nil)
		issued, err := service.Create(context.Background(), keys.Fields{})
		is.NoErr(err)
		other, err := newKeyService(b, memory.New().Keys(), nil).Create(context.Background(), keys.Fields{})
		is.NoErr(err)
		t := 0.0
		for b.Loop() {
			t = welchT(samples, candidates([]byte(issued.Raw), []byte(other.Raw), seal), func(candidate string) { service.Verify(context.Background(), candidate) })
		}
		b.ReportMetric(t, "t")
		if math.Abs(t) > threshold {
			b.Fatalf("t is %.1f: the duration of a check depends on the raw key", t)
		}
	})
}

// equalByByte is not constant-time.
func equalByByte(secret []byte, candidate string) bool {
	for i := range secret {
		if i >= len(candidate) || secret[i] != candidate[i] {
			return false
		}
	}
	return len(secret) == len(candidate)
}

// candidates returns keys of two classes: of class 0 they equal the secret and of
// class 1 a decoy, except for one digit near the end.
func candidates(secret, decoy []byte, finish func([]byte)) func(class int) string {
	return func(class int) string {
		candidate := slices.Clone([][]byte{secret, decoy}[class])
		at := len(candidate) - 7 // before the checksum of a raw key
		candidate[at] = digits[(strings.IndexByte(digits, candidate[at])+1+mathrand.IntN(len(digits)-1))%len(digits)]
		finish(candidate)
		return string(candidate)
	}
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// seal sets the checksum of a raw key.
func seal(raw []byte) {
	n := crc32.ChecksumIEEE(raw[:len(raw)-6])
	for i := len(raw) - 1; i >= len(raw)-6; i-- {
		raw[i] = digits[n%62]
		n /= 62
	}
}

// welchT returns Welch's t of the durations of check for the two classes, without
// the slowest tenth. It generates all candidates first, because generating those
// of one class could take longer.
func welchT(samples int, candidate func(class int) string, check func(string)) float64 {
	const checks = 8
	type sample struct {
		class     int
		candidate string
		took      float64
	}
	all := make([]sample, samples)
	for i := range all {
		class := mathrand.IntN(2)
		all[i] = sample{class: class, candidate: candidate(class)}
	}
	for i := range all {
		began := time.Now()
		for range checks {
			check(all[i].candidate)
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
	is.New(tb).NoErr(err)
	return service
}
