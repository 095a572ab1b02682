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

// tally has the durations and results of the requests of one kind.
type tally struct {
	durations []time.Duration
	results   map[string]int // number of requests by status or error
}

// quantile returns a duration that the part q of the requests did not exceed, zero
// without requests.
func (t *tally) quantile(q float64) time.Duration {
	if len(t.durations) == 0 {
		return 0
	}
	slices.Sort(t.durations)
	return t.durations[int(q*float64(len(t.durations)-1))].Round(10 * time.Microsecond)
}

// tallies are safe for concurrent use.
type tallies struct {
	mu     sync.Mutex
	byKind map[string]*tally
}

func (s *tallies) add(kind, result string, duration time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKind == nil {
		s.byKind = make(map[string]*tally)
	}
	t := s.byKind[kind]
	if t == nil {
		t = &tally{results: make(map[string]int)}
		s.byKind[kind] = t
	}
	t.durations = append(t.durations, duration)
	t.results[result]++
}

// merged returns the tally of all kinds with a prefix.
func (s *tallies) merged(prefix string) *tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &tally{results: make(map[string]int)}
	for kind, tally := range s.byKind {
		if strings.HasPrefix(kind, prefix) {
			all.durations = append(all.durations, tally.durations...)
			for result, count := range tally.results {
				all.results[result] += count
			}
		}
	}
	return all
}

// report logs the tallies as a table.
func (s *tallies) report(t *testing.T, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%-22s %9s %9s %9s %9s %9s  %s\n", "", "requests", "p50", "p99", "p99.9", "max", "results")
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(s.byKind)) {
		tally := s.byKind[kind]
		var results []string
		for _, result := range slices.Sorted(maps.Keys(tally.results)) {
			results = append(results, fmt.Sprint(result, ": ", tally.results[result]))
		}
		fmt.Fprintf(&out, "%-22s %9d %9v %9v %9v %9v  %s\n", kind, len(tally.durations), tally.quantile(0.5), tally.quantile(0.99), tally.quantile(0.999), tally.quantile(1), strings.Join(results, ", "))
		total += len(tally.durations)
	}
	fmt.Fprintf(&out, "%d requests in %v, %.0f a second", total, elapsed.Round(time.Second), float64(total)/elapsed.Seconds())
	t.Log("\n" + out.String())
}

// residentMemory returns the current and peak resident memory of a process in
// MiB, or zeros on systems other than Linux.
func residentMemory(pid int) (current, peak int) {
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
			current = kib >> 10
		case "VmHWM:":
			peak = kib >> 10
		}
	}
	return current, peak
}
