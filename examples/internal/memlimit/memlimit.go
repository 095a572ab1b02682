// Package memlimit makes the Go runtime respect the memory limit of its cgroup.
package memlimit

import (
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Set sets the memory limit of the Go runtime to four fifths of what the cgroup allows,
// unless GOMEMLIMIT has set it; empty is unset. It returns the limit in bytes,
// math.MaxInt64 without one. Memory of SQLite is outside of the limit.
//
// The arguments are [os.LookupEnv] and [os.ReadFile].
func Set(lookup func(string) (string, bool), readFile func(string) ([]byte, error)) int64 {
	if value, _ := lookup("GOMEMLIMIT"); value == "" {
		if limit := cgroupLimit(readFile); limit < math.MaxInt64 {
			debug.SetMemoryLimit(limit / 5 * 4)
		}
	}
	return debug.SetMemoryLimit(-1)
}

// cgroupLimit returns the memory limit of the process's cgroup (version 2 or 1) or of
// one above it, whichever is the lowest, in bytes. Without one, it is math.MaxInt64.
func cgroupLimit(readFile func(string) ([]byte, error)) int64 {
	limit := int64(math.MaxInt64)
	groups, _ := readFile("/proc/self/cgroup") // Linux only
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case fields[1] == "memory": // version 1
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[0] != "0":
			continue
		}
		for dir := path.Join("/", fields[2]); ; dir = path.Dir(dir) {
			text, _ := readFile(path.Join(root, dir, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n) // "max" is no number; version 1 has a very high one
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
