//go:build linux || darwin

package database

import "syscall"

// freeSpace returns how many bytes the directory of a file may still take.
func freeSpace(directory string) (int64, error) {
	var stats syscall.Statfs_t
	err := syscall.Statfs(directory, &stats)
	return int64(stats.Bavail) * int64(stats.Bsize), err
}
