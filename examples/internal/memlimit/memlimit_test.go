package memlimit

import (
	"io/fs"
	"math"
	"runtime/debug"
	"testing"

	"github.com/matryer/is"
)

func TestCgroupLimit_IsTheLowestOfAllLevels(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, math.MaxInt64},
		{map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, math.MaxInt64},
		{map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		{map[string]string{
			"/proc/self/cgroup":                           "0::/a.slice/b.service\n",
			"/sys/fs/cgroup/a.slice/b.service/memory.max": "max\n",
			"/sys/fs/cgroup/a.slice/memory.max":           "1048576\n",
		}, 1 << 20},
		{map[string]string{
			"/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/ignored\n3:memory:/box\n0::/\n",
			"/sys/fs/cgroup/memory/box/memory.limit_in_bytes": "2097152\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, 2 << 20},
	} {
		got := cgroupLimit(func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		is.New(t).Equal(got, c.want)
	}
}

// TestSet_EmptyVariableIsUnset is not parallel: the limit is that of the process.
func TestSet_EmptyVariableIsUnset(t *testing.T) {
	is := is.New(t)
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	readFile := func(name string) ([]byte, error) {
		if name == "/proc/self/cgroup" {
			return []byte("0::/\n"), nil
		}
		return []byte("10737418240\n"), nil
	}
	Set(func(string) (string, bool) { return "9GiB", true }, readFile)
	is.Equal(debug.SetMemoryLimit(-1), before)
	Set(func(string) (string, bool) { return "", true }, readFile)
	is.Equal(debug.SetMemoryLimit(-1), int64(8<<30))
}
