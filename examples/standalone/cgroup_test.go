//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/storage/testflag"
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

// TestSmallMemory stores and replaces a symbol of the maximum size in small cgroups.
func TestSmallMemory(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	for _, size := range []int64{64, 128, 256} {
		t.Run(fmt.Sprint(size, " MiB"), func(t *testing.T) {
			s := newSoak(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
			s.client.Timeout = 2 * time.Minute // a loaded machine is no failure
			s.env = append(s.env, "PROTECT_ROUTES=false", "DEMO=false")
			group := newMemoryGroup(t, size<<20)
			if group == nil {
				t.Skip("this machine allows no cgroup")
			}
			s.command = group.command(s.command[0])
			s.start()
			defer s.kill()
			s.calm.Store(true) // every other response is a failure
			s.send("folder", "POST", "/symbol/folders", `{"name":"F"}`, []int{201})
			const symbols = "/symbol/folders/1/symbols"
			body := func(bytes int64, letter string) string {
				return `{"name":"S","type":"text/plain","data":"` + strings.Repeat(letter, int(bytes)) + `"}`
			}
			s.send("too large", "POST", symbols, body(49<<20, "a"), []int{413})
			s.send("largest", "POST", symbols, body((size*2/3-16)<<20*3/20-1000, "a"), []int{201})
			s.send("replace", "PATCH", "/symbol/symbols/1", body((size*2/3-16)<<20*3/20-1000, "b"), []int{200})
			s.send("rename", "PATCH", "/symbol/symbols/1", `{"name":"T"}`, []int{200})
			s.send("list", "GET", symbols, "", []int{200})
			if kills := group.kills(); kills != "0" {
				t.Errorf("the program was killed %s times", kills)
			}
		})
	}
}
