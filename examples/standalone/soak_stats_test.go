//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally counts the requests of one kind: how long they took, and how they
// ended.
type tally struct {
	took []time.Duration
	ends map[string]int // a status, or what went wrong
}

// tallies are safe for concurrent use.
type tallies struct {
	mu   sync.Mutex
	kind map[string]*tally
}

func (s *tallies) add(kind, end string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind == nil {
		s.kind = make(map[string]*tally)
	}
	t := s.kind[kind]
	if t == nil {
		t = &tally{ends: make(map[string]int)}
		s.kind[kind] = t
	}
	t.took = append(t.took, took)
	t.ends[end]++
}

// report writes a table.
func (s *tallies) report(t *testing.T, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%-22s %9s %9s %9s %9s %9s  %s\n", "", "requests", "p50", "p99", "p99.9", "longest", "ends")
	all := 0
	for _, kind := range slices.Sorted(maps.Keys(s.kind)) {
		tally := s.kind[kind]
		slices.Sort(tally.took)
		at := func(part float64) time.Duration {
			return tally.took[int(part*float64(len(tally.took)-1))].Round(10 * time.Microsecond)
		}
		var ends []string
		for _, end := range slices.Sorted(maps.Keys(tally.ends)) {
			ends = append(ends, fmt.Sprint(end, ": ", tally.ends[end]))
		}
		fmt.Fprintf(&out, "%-22s %9d %9v %9v %9v %9v  %s\n", kind, len(tally.took), at(0.5), at(0.99), at(0.999), at(1), strings.Join(ends, ", "))
		all += len(tally.took)
	}
	fmt.Fprintf(&out, "%d requests in %v, %.0f a second", all, elapsed.Round(time.Second), float64(all)/elapsed.Seconds())
	t.Log("\n" + out.String())
}

// residentMemory is how much memory a process has, in MiB, and how much it had
// at most; zeros where the system does not tell.
func residentMemory(pid int) (now, most int) {
	if runtime.GOOS != "linux" {
		return 0, 0
	}
	status, err := os.ReadFile(fmt.Sprint("/proc/", pid, "/status"))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "VmRSS:":
			now = kib >> 10
		case "VmHWM:":
			most = kib >> 10
		}
	}
	return now, most
}
