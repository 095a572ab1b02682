//go:build aix || dragonfly || linux || openbsd || solaris

package files

import (
	"io/fs"
	"syscall"
	"time"
)

// statOf returns what only the operating system knows of a file: the change time
// is that of the last change of content or attributes, and cannot be set.
func statOf(info fs.FileInfo) (inode uint64, changed time.Time, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, time.Time{}, false
	}
	return uint64(stat.Ino), time.Unix(stat.Ctim.Unix()), true
}
