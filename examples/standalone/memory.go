package main

import (
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the memory limit of the Go runtime to four fifths of what the
// cgroup allows, unless GOMEMLIMIT has set it; empty is unset. SQLite takes memory outside the limit. It
// returns the budget for requests: a quarter of the limit, at most 256 MiB.
func limitMemory(lookup func(string) (string, bool), readFile func(string) ([]byte, error)) int64 {
	if value, _ := lookup("GOMEMLIMIT"); value == "" {
		if limit := cgroupLimit(readFile); limit < math.MaxInt64 {
			debug.SetMemoryLimit(limit / 5 * 4)
		}
	}
	return min(debug.SetMemoryLimit(-1)/4, 256<<20)
}

// cgroupLimit returns the memory limit of the process's cgroup (version 2 or 1) or of
// one above it, whichever is the lowest, in bytes. Without one, it is math.MaxInt64.
func cgroupLimit(readFile func(string) ([]byte, error)) int64 {
	limit := int64(math.MaxInt64)
	for _, group := range memoryCgroups(readFile) {
		for dir := group.dir; ; dir = path.Dir(dir) {
			text, _ := readFile(path.Join(group.root, dir, group.file))
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

// memoryCgroup is a cgroup of the process that limits memory.
type memoryCgroup struct {
	root string // where the hierarchy is mounted
	dir  string // below root
	file string // in dir, with the limit
}

func memoryCgroups(readFile func(string) ([]byte, error)) (list []memoryCgroup) {
	groups, _ := readFile("/proc/self/cgroup") // Linux only
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		dir := path.Join("/", fields[2])
		switch {
		case fields[1] == "memory":
			list = append(list, memoryCgroup{"/sys/fs/cgroup/memory", dir, "memory.limit_in_bytes"})
		case fields[0] == "0": // version 2
			list = append(list, memoryCgroup{"/sys/fs/cgroup", dir, "memory.max"})
		}
	}
	return list
}
