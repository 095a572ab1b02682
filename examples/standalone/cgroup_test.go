//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// memoryGroup is a cgroup with a memory limit, version 1 or 2.
type memoryGroup struct{ dir string }

// newMemoryGroup creates a cgroup of bytes below that of the test, and removes it at the
// end of the test. It returns nil if this machine does not allow it.
func newMemoryGroup(t *testing.T, bytes int64) *memoryGroup {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(group, ":")
		limitFile := map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes"}[controllers]
		dir, err := os.MkdirTemp(filepath.Join("/sys/fs/cgroup", controllers, group), "canvasback-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			for range 100 { // a killed process leaves its group a little later
				if err := os.Remove(dir); err == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("%s could not be removed", dir)
		})
		limit, err := os.OpenFile(filepath.Join(dir, limitFile), os.O_WRONLY, 0) // never created here
		if err != nil {
			continue
		}
		_, err = fmt.Fprint(limit, bytes)
		if closed := limit.Close(); err == nil && closed == nil {
			return &memoryGroup{dir}
		}
	}
	return nil
}

// command returns a command that runs a program in the group.
func (g *memoryGroup) command(program string) []string {
	return []string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$1"`, filepath.Join(g.dir, "cgroup.procs"), program}
}

// kills returns how often the kernel has killed a process of the group.
func (g *memoryGroup) kills() string {
	for _, file := range []string{"memory.events", "memory.oom_control"} {
		text, _ := os.ReadFile(filepath.Join(g.dir, file))
		for line := range strings.Lines(string(text)) {
			if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
				return count
			}
		}
	}
	return "0"
}
