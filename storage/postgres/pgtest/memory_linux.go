package pgtest

import "syscall"

// memoryDir returns a directory whose files stay in memory, or nothing where
// that has too little room for a server, as in many containers.
func memoryDir() string {
	const dir, room = "/dev/shm", 2 << 30
	var found syscall.Statfs_t
	if err := syscall.Statfs(dir, &found); err != nil || found.Bavail*uint64(found.Bsize) < room {
		return ""
	}
	return dir
}
