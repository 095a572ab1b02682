// Package storagetest is the definition of a storage driver: one that passes
// is one. It holds a driver to the contracts of [keys.Store], [symbols.Store]
// and [exports.Store] and to nothing else, so it never looks at the text of an
// error or at the size of a gap between ids.
//
// A driver's test opens storages and leaves the rest to this package:
//
//	func TestStorage(t *testing.T) {
//		storagetest.Run(t, open)
//		storagetest.RunConcurrent(t, open)
//	}
//
// The flag -long, which this package adds to the test's, makes that take
// minutes and meet what is rare:
//
//	go test -race -timeout 2h ./mydriver -long
package storagetest

import (
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// Storage is what a driver gives to its host.
type Storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// Harness is an empty storage that only one test uses.
type Harness struct {
	Storage

	// Reopen opens the same storage a second time, as another process or a
	// restart does. It is nil if the storage does not persist.
	Reopen func() Storage

	// InUse returns the number of database connections in use. It is nil if
	// the storage has no connections.
	InUse func() int
}

// Run checks the contracts one call at a time. It calls open once for each
// check, from parallel tests; open must register its cleanup with t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, area := range []struct {
		name     string
		promises []promise
	}{
		{"keys", keyPromises},
		{"epoch", epochPromises},
		{"folders", folderPromises},
		{"symbols", symbolPromises},
		{"versions", versionPromises},
		{"exports", exportPromises},
		{"contexts", contextPromises},
	} {
		t.Run(area.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range area.promises {
				t.Run(p.sentence, func(t *testing.T) {
					t.Parallel()
					p.check(t, open(t))
				})
			}
		})
	}
	t.Run("versions/a new storage has new ones", func(t *testing.T) {
		t.Parallel()
		newStorageVersions(t, open(t), open(t))
	})
}

// promise is a sentence of a contract and the function that checks it.
type promise struct {
	sentence string
	check    func(t *testing.T, s Harness)
}

// reopen returns the storage opened once more, or skips the test.
func (s Harness) reopen(t testing.TB) Storage {
	t.Helper()
	if s.Reopen == nil {
		t.Skip("the storage forgets")
	}
	return s.Reopen()
}

// wantIdle reports connections that stay in use when no call does.
func (s Harness) wantIdle(t testing.TB) {
	t.Helper()
	if s.InUse == nil {
		return
	}
	deadline := time.Now().Add(20 * time.Second) // a driver may clean up behind a call
	for s.InUse() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections stay in use", s.InUse())
		}
		time.Sleep(time.Millisecond)
	}
}

// must ends the test at an error. It is for the goroutine of the test.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// wantError reports an error that is not the one expected.
func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

var long = flag.Bool("long", false, "test for minutes, to meet what is rare")

// Long reports whether the flag -long is given.
func Long() bool { return *long }

// rounds is how often to do what goes wrong only now and then.
func rounds(few, often int) int {
	if Long() {
		return often
	}
	return few
}

// errRefused is what a function given to an update fails with.
var errRefused = errors.New("refused by the test")

// noon is a time that a service might store.
var noon = time.Date(2026, 3, 30, 12, 0, 0, 123e6, time.UTC)

// times are the bounds of what is stored and those where precision shows.
var times = []time.Time{
	time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
	time.Date(1970, 1, 1, 0, 0, 0, 1e6, time.UTC),
	time.Date(2001, 9, 9, 1, 46, 39, 999e6, time.UTC),
	time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
}

// oddTexts are different texts that a careless storage alters or mixes up.
// Each is valid as a name.
var oddTexts = []string{
	"plain", "Plain", "PLAIN", "plain ", " plain", "plain\t", "plain\u00a0",
	"i", "I", "ı", "İ", "ß", "ss", "\u00e9", "e\u0301", "\u212b", "\u00c5",
	"0", "00", "1e3", "1000.0", "null", "NULL", "true", "{}", "[]", "-",
	`'`, `''`, `"`, "`", `\`, `\\`, `\n`, `\u0000`, `C:\temp\new`, `'; DROP TABLE canvasback_keys; --`,
	"%", "_", "*", "?", "$1", "?1", ":name", "@name", "{{.}}", "<b>&amp;</b>",
	"line\nbreak", "carriage\r\nreturn", "tab\tstop", "\x01\x1f\x7f", "\u0085", "\u2028", "\ufeffmark",
	"שלום עולם", "مرحبا", "\u202eright to left\u202c", "zero\u200bwidth", "漢字", "ᚠᛇᚻ",
	"😀", "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "\ufffd", "\uffff", "\U0010ffff",
	strings.Repeat("a", 255), strings.Repeat("a", 254) + "b",
	strings.Repeat("😀", 255), strings.Repeat("😀", 254) + "😁",
}

// longText returns n code points of four bytes each. They hardly compress, so
// that a limit on what is stored cannot be evaded by that.
func longText(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range n {
		text.WriteRune(0x20000 + random.Int32N(0xa000))
	}
	return text.String()
}
