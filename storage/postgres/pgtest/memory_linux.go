package pgtest

import "syscall"

// memoryDir returns a directory in memory, or "" if it has less than 2 GiB free,
// as in many containers.
func memoryDir() string {
	const dir, minFree = "/dev/shm", 2 << 30
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < minFree {
		return ""
	}
	return dir
}
