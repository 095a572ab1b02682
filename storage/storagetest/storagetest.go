// Package storagetest is a conformance test suite for storage drivers. It checks
// the contracts of [keys.Store], [symbols.Store] and [exports.Store], and of
// [exports.LinkStore] if the store is one, and nothing else: not the text of an error,
// nor the gaps between ids.
//
// A driver's test provides a function that opens an empty storage:
//
//	func TestStorage(t *testing.T) {
//		storagetest.Run(t, open)
//		storagetest.RunConcurrent(t, open)
//	}
//
// [RunFaults] also injects faults into database calls, and [RunUnconfirmed] checks
// writes that the storage cannot confirm. With CI=true in the environment the concurrent
// checks do three times as many rounds. With the flag -long, which the package adds, they
// run for minutes to find rare failures:
//
//	go test -race -timeout 2h ./mydriver -long
package storagetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// Storage is what a driver provides.
type Storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// Harness is an empty storage that only one test uses.
type Harness struct {
	Storage

	// Reopen opens the same storage a second time, as another process or a
	// restart does. It is nil if the storage exists in this process only.
	Reopen func() Storage

	// InUse returns the number of database connections in use. It is nil if
	// the storage has no connections.
	InUse func() int
}

// Run checks the contracts one call at a time. It calls open once for each
// check, from parallel tests; open must register its cleanup with t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, area := range []struct {
		name   string
		checks []check
	}{
		{"keys", keyChecks},
		{"changes", changeChecks},
		{"folders", folderChecks},
		{"symbols", symbolChecks},
		{"trash", trashChecks},
		{"versions", versionChecks},
		{"exports", exportChecks},
		{"links", linkChecks},
		{"facts", factChecks},
		{"symbol changes", symbolChangeChecks},
		{"tenants", tenantChecks},
		{"contexts", contextChecks},
	} {
		t.Run(area.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range area.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, open(t))
				})
			}
		})
	}
	t.Run("changes/epochs of two storages differ", func(t *testing.T) {
		t.Parallel()
		changesTwoStorages(t, open(t), open(t))
	})
	t.Run("versions/versions of two storages differ", func(t *testing.T) {
		t.Parallel()
		newStorageVersions(t, open(t), open(t))
	})
}

// check is a test of one sentence of a contract, which is its name.
type check struct {
	name string
	run  func(t *testing.T, s Harness)
}

// reopen returns a second handle on the storage. It skips the test if the
// storage cannot be opened twice.
func (s Harness) reopen(t testing.TB) Storage {
	t.Helper()
	if s.Reopen == nil {
		t.Skip("the storage cannot be opened twice")
	}
	return s.Reopen()
}

func hasLinks(s Storage) bool {
	_, ok := s.Exports().(exports.LinkStore)
	return ok
}

// linkStore returns the part of a storage for links and facts. It skips the test if
// there is none.
func linkStore(t testing.TB, s Storage) exports.LinkStore {
	t.Helper()
	if !hasLinks(s) {
		t.Skip("the store is not an exports.LinkStore")
	}
	return s.Exports().(exports.LinkStore)
}

// wantIdle checks that all connections are released.
func (s Harness) wantIdle(t testing.TB) {
	t.Helper()
	if s.InUse == nil {
		return
	}
	deadline := time.Now().Add(time.Minute) // a driver may clean up after a call has returned
	for s.InUse() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still in use", s.InUse())
		}
		time.Sleep(time.Millisecond)
	}
}

// must ends the test if err is not nil. Only the test's goroutine may call it.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// wantError checks that got matches want.
func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

// wantEqual checks that a value, of which what says where it is from, is the one wanted.
func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s %+v, want %+v", what, got, want)
	}
}

// wantList is wantEqual for lists.
func wantList[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %+v, want %+v", what, got, want)
	}
}

// iterations returns long if the flag -long is set, otherwise short in CI and a third
// of it elsewhere.
func iterations(short, long int) int { return testflag.Rounds((short+2)/3, short, long) }

// errCallback is returned by functions that are passed to updates.
var errCallback = errors.New("rejected by the test")

// testTime is a time with milliseconds.
var testTime = time.Date(2026, 3, 30, 12, 0, 0, 123e6, time.UTC)

// times are the earliest and latest times, and two that show loss of precision.
var times = []time.Time{
	time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
	time.Date(1970, 1, 1, 0, 0, 0, 1e6, time.UTC),
	time.Date(2001, 9, 9, 1, 46, 39, 999e6, time.UTC),
	time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
}

// sampleTexts are distinct texts that a storage could alter or confuse. Each is
// a valid name.
var sampleTexts = []string{
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

// incompressibleText returns n random code points of four bytes each, which
// exceed a size limit of the database even if it compresses.
func incompressibleText(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range n {
		text.WriteRune(0x20000 + random.Int32N(0xa000))
	}
	return text.String()
}
